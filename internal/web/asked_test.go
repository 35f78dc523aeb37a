package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// asks parses a form of harbour's page.
func asks(form url.Values) (operate.Asked, error) {
	r := httptest.NewRequest(http.MethodPost, "/ui/clusters/harbour/plan", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetPathValue("name", "harbour")
	return askedOf(r)
}

// TestAsked: the pages pass a form's request on unchanged, and show the matching command line.
func TestAsked(t *testing.T) {
	for command, form := range map[string]url.Values{
		"naupegos apply -f FILE": {"document": {harbour}},
		"naupegos upgrade harbour --to v1.37.2 --pause-after harbour-cp-1":     {"verb": {"upgrade"}, "to": {" v1.37.2 "}, "pause-after": {"harbour-cp-1"}},
		"naupegos upgrade harbour --finish":                                    {"verb": {"upgrade"}, "way": {"finish"}},
		"naupegos upgrade harbour --back":                                      {"verb": {"upgrade"}, "way": {"back"}},
		"naupegos upgrade harbour --pool 'a b'":                                {"verb": {"upgrade"}, "pool": {"a b"}},
		"naupegos document harbour > FILE":                                     {"verb": {"apply"}},
		"naupegos node add harbour --pool general --count 2":                   {"verb": {"node add"}, "pool": {"general"}, "count": {"2"}},
		"naupegos node add harbour --control-plane":                            {"verb": {"node add"}, "control-plane": {"yes"}, "count": {"1"}},
		"naupegos node remove harbour a b":                                     {"verb": {"node remove"}, "machine": {"a", "b"}},
		"naupegos node drain harbour a --force":                                {"verb": {"node drain"}, "machine": {"a"}, "force": {"yes"}},
		"naupegos machine reboot harbour a":                                    {"verb": {"machine reboot"}, "machine": {"a"}},
		"naupegos repair harbour --machine a":                                  {"verb": {"repair"}, "machine": {"a"}},
		"naupegos update harbour --pool general --now":                         {"verb": {"update"}, "pool": {"general"}, "now": {"yes"}},
		"naupegos update harbour --machine a --reboot-only":                    {"verb": {"update"}, "machine": {"a"}, "reboot-only": {"yes"}},
		"naupegos backup prune harbour":                                        {"verb": {"backup prune"}},
		"naupegos node drain harbour a --delete-emptydir-data":                 {"verb": {"node drain"}, "machine": {"a"}, "delete-emptydir-data": {"yes"}},
		"naupegos certs rotate harbour --wireguard":                            {"verb": {"certs rotate"}, "rotate": {"wireguard"}},
		"naupegos certs rotate harbour --cloud-credential":                     {"verb": {"certs rotate"}, "rotate": {"cloud-credential"}},
		"naupegos renew harbour":                                               {"verb": {"renew"}},
		"naupegos backup create harbour":                                       {"verb": {"backup create"}},
		"naupegos backup rehearse harbour 20261123T211500Z-3f9a":               {"verb": {"backup rehearse"}, "backup": {"20261123T211500Z-3f9a"}},
		"naupegos backup restore harbour --from latest --consent replace-data": {"verb": {"backup restore"}, "backup": {"latest"}},
		"naupegos certs rotate harbour --all --hold":                           {"verb": {"certs rotate"}, "rotate": {"all"}, "hold": {"yes"}},
		"naupegos certs rotate harbour --finish":                               {"verb": {"certs rotate"}, "rotate": {"finish"}},
		"naupegos destroy harbour --keep-volumes":                              {"verb": {"destroy"}, "keep-volumes": {"yes"}, "confirm": {"harbour"}},
	} {
		a := testkit.Value(asks(form))(t)
		if got := "\n" + commandsOf("harbour", a) + "\n"; !strings.Contains(got, "\n"+command+"\n") {
			t.Errorf("%v is by the command line %s", form, got)
		}
		again := url.Values{}
		for _, f := range fieldsOf(a) {
			again.Add(f.Name, f.Value)
		}
		if b := testkit.Value(asks(again))(t); !reflect.DeepEqual(a, b) {
			t.Errorf("the fields of %+v ask for %+v", a, b)
		}
	}
	for words, form := range map[string]url.Values{
		"no release is given":   {"verb": {"upgrade"}},
		"--back excludes":       {"verb": {"upgrade"}, "way": {"back"}, "to": {"v1.37.2"}},
		`carry out "import"`:    {"verb": {"import"}},
		"document: it is empty": {"document": {"\r\n"}},
		"no machine is named":   {"verb": {"node drain"}},
		"not a number from 1":   {"verb": {"node add"}, "count": {"many"}},
		"no backup is given":    {"verb": {"backup restore"}},
		"say what to rotate":    {"verb": {"certs rotate"}},
	} {
		_, err := asks(form)
		testkit.Fails(t, err, fail.Invalid, words)
	}
}

// TestPause: until a paused cluster continues, its pages, its run and its job say where it is paused and how it continues.
func TestPause(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	asked := operate.Asked{Verb: upgrade, Cluster: "harbour", Upgrade: &operate.Upgrade{Finish: true, PauseAfter: "harbour-cp-1"}}
	j := testkit.Value(s.board.Add(t.Context(), "ada", "harbour", work.Order{Asked: asked}))(t)
	run := func(verb string, meta map[string]string, while func()) {
		t.Helper()
		p := &plan.Plan{Verb: verb, Cluster: "harbour", Steps: []*plan.Step{{ID: "configure/harbour-cp-1", Action: plan.Change, Subject: "harbour-cp-1", Title: "configure it", Reason: "it is wanted",
			Run: func(context.Context, plan.Progress) error { while(); return nil }}}}
		testkit.Value(plan.Execute(t.Context(), p, plan.Options{Journal: s.store.Journal(c.ID), Meta: meta}))(t)
	}
	says := func(token, path string, paused, goesOn bool) {
		t.Helper()
		a := s.ask("GET", path, token, nil)
		if a.code != http.StatusOK || strings.Contains(a.body, "has paused after <code>harbour-cp-1</code>") != paused || strings.Contains(a.body, "Plan the rest after the pause") != goesOn {
			t.Errorf("%s: %d, wanted that it has paused: %t, and the way on: %t: %s", path, a.code, paused, goesOn, a.body)
		}
	}
	at := "/ui/jobs/" + j.ID
	run("apply", map[string]string{"job": j.ID, operate.MetaPause: "harbour-cp-1"}, func() {
		says(s.local, "/ui/clusters/harbour", false, false)
		if a := s.ask("GET", at, s.reader, nil); !strings.Contains(a.body, "It pauses after <code>harbour-cp-1</code>") {
			t.Errorf("the page of the job does not say where it will pause: %s", a.body)
		}
	})
	claimed := testkit.Value(s.store.ClaimJob(t.Context(), time.Minute))(t)
	testkit.Must(t, s.store.EndJob(t.Context(), claimed, testkit.Value(json.Marshal(work.Result{Done: operate.Done{Changed: true, Paused: true}}))(t)))
	pages := []string{"/ui/clusters/harbour", at, "/ui/runs/" + testkit.Value(s.store.Runs(t.Context(), "harbour", 1))(t)[0].ID}
	run("backup create", nil, func() {}) // does not count as continuing
	for _, path := range pages {
		says(s.local, path, true, true)
		says(s.reader, path, true, false)
		if a := s.ask("GET", path, s.local, nil); !strings.Contains(a.body, "<code>naupegos apply -f FILE</code>") {
			t.Errorf("%s does not name the command that continues: %s", path, a.body)
		}
	}
	overview := func() string { return s.ask("GET", "/ui/", s.local, nil).body }
	if body := overview(); !strings.Contains(body, "apply has paused after harbour-cp-1") || !strings.Contains(body, "<code>naupegos apply -f FILE</code>") || strings.Contains(body, "--finish") {
		t.Errorf("the overview does not say how the cluster continues as its page does: %s", body)
	}
	run("apply", nil, func() {})
	if body := overview(); strings.Contains(body, "has paused") {
		t.Errorf("the overview says of a cluster that continued: %s", body)
	}
	for _, path := range pages {
		says(s.local, path, path != "/ui/clusters/harbour", false)
	}
}
