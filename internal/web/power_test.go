package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// switched records the power actions.
type switched []string

// Power implements registry.Power.
func (s *switched) Power(_ context.Context, a bmc.Access, action, boot string) (bool, error) {
	*s = append(*s, strings.TrimSpace(strings.Join([]string{a.Address, action, boot}, " ")))
	return action != "off", nil
}

func TestPower(t *testing.T) {
	s := newSite(t)
	uuid, own := s.discover(1), []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	path := "/ui/machines/" + uuid
	if a := s.ask("GET", path, s.admin, nil); !strings.Contains(a.body, "naupegos machine bmc "+uuid) || strings.Contains(a.body, path+"/power") {
		t.Error("a machine without a BMC can be switched, or the page does not say how it could")
	}
	testkit.Value(s.pages.c.Machines.SetBMC(t.Context(), uuid, registry.BMC{Address: "192.0.2.7", User: "root"}, []byte("s3cret-word")))(t)
	if a := s.ask("GET", path, s.admin, nil); !strings.Contains(a.body, path+"/power") || !strings.Contains(a.body, "naupegos machine power "+uuid+" cycle") || strings.Contains(a.body, "s3cret-word") {
		t.Errorf("the page of a machine with a BMC: %s", a.body)
	}
	for _, c := range []struct {
		token string
		form  url.Values
		code  int
	}{
		{s.admin, url.Values{"action": {"cycle"}, "boot": {"network"}, "sure": {"yes"}}, http.StatusSeeOther},
		{s.admin, url.Values{"action": {"off"}, "sure": {"yes"}}, http.StatusSeeOther},
		{s.admin, url.Values{"action": {"status"}}, http.StatusSeeOther},
		{s.admin, url.Values{"action": {"on"}}, http.StatusSeeOther},
		{s.admin, url.Values{"action": {"explode"}}, http.StatusBadRequest},
		{s.reader, url.Values{"action": {"off"}}, http.StatusForbidden},
	} {
		if a := s.ask("POST", path+"/power", c.token, c.form, own...); a.code != c.code {
			t.Errorf("%v: %d, want %d", c.form, a.code, c.code)
		}
	}
	if want := []string{"192.0.2.7 cycle network", "192.0.2.7 off", "192.0.2.7 status", "192.0.2.7 on"}; !slices.Equal(s.switched, want) {
		t.Errorf("switched %q, want %q", s.switched, want)
	}
}

// TestNothingIsCutOffByOneClick: what erases a disk, cuts off what runs, or breaks off a job needs a ticked box, in the browser and on the server.
func TestNothingIsCutOffByOneClick(t *testing.T) {
	s := newSite(t)
	uuid, own := s.discover(1), []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	path, m := "/ui/machines/"+uuid, s.pages.c.Machines
	testkit.Value(m.Approve(t.Context(), uuid, "", "ada"))(t)
	testkit.Value(m.SetBMC(t.Context(), uuid, registry.BMC{Address: "192.0.2.7", User: "root"}, []byte("s3cret-word")))(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	job := testkit.Value(s.board.Add(t.Context(), "ada", "harbour", work.Order{Asked: operate.Asked{Verb: operate.Apply, Cluster: "harbour"}}))(t)
	pages := s.ask("GET", path, s.admin, nil).body + s.ask("GET", "/ui/jobs/"+job.ID, s.admin, nil).body
	forms := strings.Split(pages, "<form ")
	check := func(action, field, value string) {
		t.Helper()
		form := url.Values{}
		if field != "" {
			form.Set(field, value)
		}
		if a := s.ask("POST", action, s.admin, form, own...); a.code != http.StatusBadRequest || !strings.Contains(a.body, "the box was not ticked") {
			t.Errorf("%s %s without the box: %d %s", action, value, a.code, a.body)
		}
		found := false
		for _, f := range forms {
			f, _, _ = strings.Cut(f, "</form>")
			if strings.Contains(f, `action="`+action+`"`) && strings.Contains(f, `value="`+value+`"`) {
				if found = true; !strings.Contains(f, `name="sure" value="yes" required`) {
					t.Errorf("the form of %s %s has no box: %s", action, value, f)
				}
			}
		}
		if !found {
			t.Errorf("there is no form of %s %s", action, value)
		}
	}
	for _, act := range []string{"off", "cycle", "reset", "shutdown"} {
		check(path+"/power", "action", act)
	}
	check(path+"/reinstall", "", "yes")
	check("/ui/jobs/"+job.ID+"/kill", "", "yes")
	if j := testkit.Value(s.store.Job(t.Context(), job.ID))(t); j.Stop != store.GoOn || len(s.switched) != 0 {
		t.Errorf("all the same: the job is %+v, the power %q", j, s.switched)
	}
	if a := s.ask("POST", path+"/unassign", s.admin, url.Values{}, own...); a.code != http.StatusBadRequest || !strings.Contains(a.body, "the box was not ticked") {
		t.Errorf("a machine leaves its pool by one click: %d", a.code)
	}
	testkit.Value(m.Authorize(t.Context(), testkit.Value(m.Machine(t.Context(), uuid))(t)))(t)
	testkit.Must(t, m.Finish(t.Context(), testkit.Value(m.Machine(t.Context(), uuid))(t), true, nil))
	if a := s.ask("POST", path+"/reinstall", s.admin, url.Values{"sure": {"yes"}}, own...); a.code != http.StatusSeeOther {
		t.Errorf("reinstall: %d %s", a.code, a.body)
	}
	if a := s.ask("GET", path, s.admin, nil); !strings.Contains(a.body, path+"/keep") || strings.Contains(a.body, path+"/reinstall") {
		t.Error("a reinstallation can't be taken back")
	}
	if a := s.ask("POST", path+"/keep", s.admin, url.Values{}, own...); a.code != http.StatusSeeOther || testkit.Value(m.Machine(t.Context(), uuid))(t).Record.Reinstall {
		t.Errorf("taken back: %d %s", a.code, a.body)
	}
}

func TestHalted(t *testing.T) {
	steps := []plan.StepRecord{{Title: "drain w1", State: plan.Succeeded}, {Title: "w1 is ready", State: plan.Failed, Err: "kubelet does not answer"}, {Title: "uncordon w1"}, {Title: "drain w2"}}
	if h := haltedOf(&plan.RunRecord{Steps: steps}); h.Step != "w1 is ready" || h.Why != "kubelet does not answer" || h.Left != 2 {
		t.Errorf("a gate that failed: %+v", h)
	}
	if h := haltedOf(&plan.RunRecord{Steps: steps[:1]}); h.Step != "" || h.Left != 0 {
		t.Errorf("a run that was stopped: %+v", h)
	}
}
