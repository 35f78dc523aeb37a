package web

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestActionsShowTheirCommands: each form on a machine's page shows its command line, with the machine's name; a reader sees neither.
func TestActionsShowTheirCommands(t *testing.T) {
	s := newSite(t)
	uuid := s.discover(1)
	path, own := "/ui/machines/"+uuid, []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	testkit.Value(s.pages.c.Machines.SetBMC(t.Context(), uuid, registry.BMC{Address: "192.0.2.7", User: "root"}, []byte("s3cret-word")))(t)
	shows := func() {
		t.Helper()
		forms := strings.Split(s.ask("GET", path, s.admin, nil).body, `<form class="bar" method="post" action="`+path+"/")[1:]
		for _, form := range forms {
			verb, rest, _ := strings.Cut(form, `"`)
			if !strings.Contains(rest, "naupegos machine "+verb+" ") {
				t.Errorf("%s does not show its command", verb)
			}
		}
		if len(forms) < 9 {
			t.Errorf("there are only %d forms", len(forms))
		}
	}
	shows()
	testkit.Value(s.pages.c.Machines.Approve(t.Context(), uuid, "", "ada"))(t)
	testkit.Value(s.pages.c.Machines.Rename(t.Context(), uuid, "bay-7"))(t)
	shows()
	if a := s.ask("GET", path, s.admin, nil); !strings.Contains(a.body, "naupegos machine label bay-7 KEY=VALUE") {
		t.Errorf("commands name the machine otherwise: %s", a.body)
	}
	for _, p := range []string{path, "/ui/approvals"} {
		if a := s.ask("GET", p, s.reader, nil); a.code != http.StatusOK || strings.Contains(a.body, `action="`+path) {
			t.Errorf("the role read sees forms that change things: %d %s", a.code, a.body)
		}
	}

	for action, form := range map[string]url.Values{"strategy": {"strategy": {"kexec"}}, "assign": {"cluster": {"quay"}, "pool": {"general"}}} {
		if a := s.ask("POST", path+"/"+action, s.reader, form, own...); a.code != http.StatusForbidden {
			t.Errorf("a reader may %s: %d", action, a.code)
		}
		if a := s.ask("POST", path+"/"+action, s.admin, form, own...); a.code != http.StatusSeeOther {
			t.Errorf("%s: %d %s", action, a.code, a.body)
		}
	}
	m := testkit.Value(s.pages.c.Machines.Machine(t.Context(), uuid))(t)
	if m.Record.Strategy.Kind != "kexec" || m.Claim.Cluster != "quay" || m.Claim.Pool != "general" {
		t.Errorf("the machine takes updates by %q, and is %+v", m.Record.Strategy.Kind, m.Claim)
	}
	if a := s.ask("POST", path+"/assign", s.admin, url.Values{"cluster": {"other"}, "pool": {"general"}}, own...); a.code != http.StatusForbidden || !strings.Contains(a.body, "it is quay") {
		t.Errorf("a machine is given away that another has: %d %s", a.code, a.body)
	}
	if a := s.ask("POST", path+"/strategy", s.admin, url.Values{"strategy": {"hope"}}, own...); a.code != http.StatusBadRequest {
		t.Errorf("a strategy that there is not: %d", a.code)
	}
	shows()

	// Asking for the power state switches nothing, and the page says the state.
	a := s.ask("POST", path+"/power", s.admin, url.Values{"action": {"status"}, "boot": {"network"}}, own...)
	if a = s.ask("GET", a.Get("Location"), s.admin, nil); !strings.Contains(a.body, "According to its BMC, the machine is on.") || s.switched[len(s.switched)-1] != "192.0.2.7 status" {
		t.Errorf("the page does not say that it is on: %d; asked for were %q", a.code, s.switched)
	}
	a = s.ask("POST", path+"/power", s.admin, url.Values{"action": {"off"}, "sure": {"yes"}}, own...)
	if a = s.ask("GET", a.Get("Location"), s.admin, nil); !strings.Contains(a.body, "According to its BMC, the machine is off.") {
		t.Errorf("the page does not say that it is off: %d", a.code)
	}
}

// TestMachinesByUse: links filter machines by their use.
func TestMachinesByUse(t *testing.T) {
	s := newSite(t)
	for _, c := range []store.Cluster{{Name: "quay", Provider: "metal"}, {Name: "harbour", Provider: "metal"}, {Name: "lake", Provider: "local"}} {
		c.Document = []byte("kind: Cluster")
		testkit.Value(s.store.CreateCluster(t.Context(), c))(t)
	}
	for n := range 3 {
		uuid := s.discover(n)
		testkit.Value(s.pages.c.Machines.Approve(t.Context(), uuid, "", "ada"))(t)
		if n == 0 {
			testkit.Must(t, s.pages.c.Machines.Assign(t.Context(), uuid, "quay", "control-plane"))
		}
	}
	rows := func(token, query string) (int, string) {
		a := s.ask("GET", "/ui/machines"+query, token, nil)
		return strings.Count(a.body, `<tr tabindex="0">`), a.body
	}
	_, body := rows(s.admin, "?state=discovered&free=yes")
	for _, want := range []string{`<a href="/ui/machines?cluster=quay&amp;state=discovered">of quay</a>`, `<a href="/ui/machines?free=yes&amp;state=discovered" aria-current="true">free</a>`,
		`<a href="/ui/machines?state=discovered">any use</a>`, `<a href="/ui/machines?role=etcd-member&amp;state=discovered">etcd-member</a>`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %s in %s", want, body)
		}
	}
	if strings.Contains(body, "can't be used: ") {
		t.Error("a machine that is approved, free and whole can't be used")
	}
	if strings.Contains(body, "of lake") {
		t.Error("a cluster whose machines are no physical ones is a filter")
	}
	if n, body := rows(s.local, ""); n != 0 || strings.Contains(body, "of quay") {
		t.Error("an operator of one cluster sees physical machines")
	}
	for query, want := range map[string]int{"": 3, "?free=yes": 2, "?cluster=quay": 1, "?role=etcd-member": 1} {
		if n, _ := rows(s.admin, query); n != want {
			t.Errorf("%s shows %d machines, want %d", query, n, want)
		}
	}
}

// TestMachinesThatCantBeUsed: links filter free machines by the reason why they can't be used, and the rows agree.
func TestMachinesThatCantBeUsed(t *testing.T) {
	s := newSite(t)
	m := s.pages.c.Machines
	is := func(m *registry.Machine, err error) *registry.Machine { t.Helper(); return testkit.Value(m, err)(t) }
	for n := range 5 {
		uuid := s.discover(n)
		is(m.Rename(t.Context(), uuid, fmt.Sprint("bay-", n)))
		if n == 0 {
			continue // waits for approval
		}
		is(m.Approve(t.Context(), uuid, "", "ada"))
		switch n {
		case 1:
			is(m.Maintain(t.Context(), uuid, "a fan is loud"))
		case 2:
			testkit.Value(m.Authorize(t.Context(), is(m.Machine(t.Context(), uuid))))(t)
			testkit.Must(t, m.Finish(t.Context(), is(m.Machine(t.Context(), uuid)), false, nil))
		case 3:
			testkit.Must(t, m.Assign(t.Context(), uuid, "quay", "control-plane"))
			is(m.Maintain(t.Context(), uuid, "its cluster has it"))
		}
	}
	for query, want := range map[string][]string{"any": {"bay-0", "bay-1", "bay-2"}, "unapproved": {"bay-0"}, "maintenance": {"bay-1"}, "failed": {"bay-2"}, "diskless": nil, "tired": {"bay-0", "bay-1", "bay-2", "bay-3", "bay-4"}} {
		a := s.ask("GET", "/ui/machines?state=&unusable="+query, s.admin, nil)
		if got := inOrder(a, `<a href="/ui/machines/[^"]*">(bay-[0-9])</a>`); !cmp.Equal(got, want) {
			t.Errorf("%s shows %v, want %v", query, got, want)
		}
		if said := strings.Count(a.body, "can't be used: "); query != "tired" && said != len(want) {
			t.Errorf("%s shows %d machines that say why they can't be used, want %d", query, said, len(want))
		}
	}
	a := s.ask("GET", "/ui/machines?approval=approved&cluster=quay", s.admin, nil)
	for text, href := range map[string]string{"can't be used": "any", "not approved": "unapproved", "in maintenance": "maintenance", "installation failed": "failed", "no disk": "diskless"} {
		if want := `<a href="/ui/machines?approval=approved&amp;unusable=` + href + `">` + template.HTMLEscapeString(text) + `</a>`; !strings.Contains(a.body, want) {
			t.Errorf("there is no %s in %s", want, a.body)
		}
	}
	a = s.ask("GET", "/ui/machines?approval=approved&unusable=failed", s.admin, nil)
	for _, want := range []string{`unusable=failed" aria-current="true">installation failed<`, `<a href="/ui/machines?approval=approved">any use</a>`, `<a href="/ui/machines?approval=approved&amp;free=yes">free</a>`,
		`type="hidden" name="unusable" value="failed"`, "naupegos machine list --approval approved --unusable failed", `order=-name&amp;unusable=failed">Machine</a>`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("there is no %s in %s", want, a.body)
		}
	}
}

// TestWhereClustersStand: the list shows each cluster's release and pause; a cluster's page shows the last look, if any, with unfinished procedures.
func TestWhereClustersStand(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "quay", Provider: "local", Document: []byte(harbour), Facts: store.Facts{{Kind: "bundle"}: "v1.36.4 0123abcd"}}))(t)
	p := &plan.Plan{Verb: "apply", Cluster: "quay", Steps: []*plan.Step{{ID: backups.BackupStep, Action: plan.Create, Subject: "cluster", Title: "create a backup", Reason: "it is wanted",
		Run: func(context.Context, plan.Progress) error { return nil }}}}
	testkit.Value(plan.Execute(t.Context(), p, plan.Options{Journal: s.store.Journal(c.ID), Meta: map[string]string{"pause-after": "quay-cp-1"}}))(t)
	if a := s.ask("GET", "/ui/clusters", s.reader, nil); !strings.Contains(a.body, ">v1.36.4<") || !strings.Contains(a.body, ">paused<") {
		t.Errorf("the list does not say it: %s", a.body)
	}
	if a := s.ask("GET", "/ui/backups", s.reader, nil); !strings.Contains(a.body, "title=\""+at(testkit.Value(s.store.Runs(t.Context(), "quay", 1))(t)[0].Steps[0].Ended)) {
		t.Errorf("the page of backups does not say when one was made: %s", a.body)
	}
	if a := s.ask("GET", "/ui/clusters/quay", s.reader, nil); !strings.Contains(a.body, "no server has looked yet") {
		t.Errorf("before the first look: %s", a.body)
	}
	s.saw(c.ID, &report.Status{Name: "quay", State: report.Drifted, Cause: "quay-w-1-of-a-very-long-name: 1 change", API: "ready", Endpoint: "10.0.0.10:6443", Upgrade: "to v1.37.2, 1 of 3 machines", Repairs: []string{"quay-w-1 was restarted"}, Machines: []report.MachineStatus{
		{Name: "quay-w-1-of-a-very-long-name", Role: "worker", Pool: "general", Address: "10.0.0.7", State: "running", Config: "1 change", Node: "Ready"}}})
	a := s.ask("GET", "/ui/clusters/quay", s.reader, nil)
	for _, want := range []string{"Upgrade: to v1.37.2, 1 of 3 machines", "Repair: quay-w-1 was restarted", ">quay-w-1-of…ry-long-name<", ">general · 10.0.0.7<", `<div id="now" data-live=`, "<strong>drifted</strong>",
		"quay-w-1-of-a-very-long-name: 1 change", `<code class="copy">10.0.0.10:6443</code>`, `href="/ui/clusters/quay/machines/quay-w-1-of-a-very-long-name"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the status lacks %q: %s", want, a.body)
		}
	}
	if a := s.ask("GET", "/ui/clusters/quay/machines/quay-w-1-of-a-very-long-name", s.reader, nil); a.code != http.StatusOK || !strings.Contains(a.body, "in pool general") || strings.Contains(a.body, "node drain") {
		t.Errorf("the page of its machine: %d %s", a.code, a.body)
	}
	if a := s.ask("GET", "/ui/clusters/quay/machines/quay-w-9", s.reader, nil); a.code != http.StatusNotFound {
		t.Errorf("a machine that there is not: %d", a.code)
	}
}

// TestLeaseIsAt: the page of waves shows the running steps of a lease's holder.
func TestLeaseIsAt(t *testing.T) {
	run := plan.RunRecord{ID: "r1", Outcome: plan.OutcomeRunning, Steps: []plan.StepRecord{{Title: "drain w1", State: plan.Succeeded}, {Title: "w1 is ready", State: plan.Retrying}, {Title: "drain w2", State: plan.Running}, {Title: "w2 is ready"}}}
	var l leaseRow
	l.at(&run)
	if diff := cmp.Diff(leaseRow{Now: []string{"w1 is ready", "drain w2"}, Run: "r1"}, l); diff != "" {
		t.Error(diff)
	}
	run.Outcome, l = plan.OutcomeFailed, leaseRow{}
	if l.at(&run); l.Run != "" || l.Now != nil {
		t.Errorf("a run that has ended is under way: %+v", l)
	}
	l.at(nil)
}

// TestAgo: ages have one number, and the unit that people say.
func TestAgo(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]string{0: "now", 59 * time.Second: "59s ago", 72 * time.Second: "1 min ago", 62 * time.Minute: "1 h ago", 47*time.Hour + 59*time.Minute: "47 h ago", 49 * time.Hour: "2 days ago"} {
		if got := ago(now.Add(-age), now); got != want {
			t.Errorf("%v: %s, want %s", age, got, want)
		}
	}
}
