package show

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/testkit"
)

// drifted returns a plan for five machines with every kind of difference.
func drifted() *plan.Plan {
	web, old := "web", "db"
	file := func(name, line string) delta.Delta {
		return delta.Delta{Kind: "file", Name: name, Action: "update", Why: "content differs", Hunks: []delta.Hunk{{From: 1, To: 1, Lines: []string{" 127.0.0.1 localhost", "-" + line, "+10.0.0.9 demo-a-4"}}}}
	}
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Estimate: 9700 * time.Millisecond, Document: []delta.Delta{delta.Value("field", "spec.workers[a].labels.tier", &old, &web)}}
	for _, name := range []string{"demo-cp-1", "demo-a-1", "demo-a-2"} {
		role := "control-plane"
		if strings.Contains(name, "-a-") {
			role = "worker"
		}
		line := "# by hand"
		if name == "demo-a-2" {
			line = "# by another hand"
		}
		s := &plan.Step{ID: "configure/" + name, Action: plan.Change, Subject: name, Title: "configure " + role + " " + name, Reason: "it differs from the document", Run: done,
			Deltas: []delta.Delta{file("/etc/hosts", line), {Kind: "file", Name: "/etc/kubernetes/admin.conf", Action: "update", Why: "content differs", Secret: true}}}
		for i := range s.Deltas {
			s.Details = append(s.Details, s.Deltas[i].Detail())
		}
		s.Details = append(s.Details, "2 blobs of the bundle to send")
		p.Steps = append(p.Steps, s)
	}
	hand := file("/etc/hosts", "# by hand")
	hand.Modified, hand.ByHand = time.Date(2026, 11, 28, 13, 16, 58, 0, time.Local), true
	p.Steps = append(p.Steps,
		&plan.Step{ID: "configure/demo-a-3", Action: plan.Change, Subject: "demo-a-3", Title: "configure worker demo-a-3", Reason: "it differs from the document", Run: done, Deltas: []delta.Delta{hand}},
		&plan.Step{ID: "node/demo-a-3", Action: plan.Change, Subject: "demo-a-3", Title: "reconcile node demo-a-3", Deltas: []delta.Delta{delta.Value("label", "tier", nil, &web)}, Run: done})
	return p
}

// TestPlanShowsContent: the summary comes first, equal steps are grouped, short differences are always shown, lines of files on request, secrets
// never.
func TestPlanShowsContent(t *testing.T) {
	for name, as := range map[string]Look{"drifted.txt": {}, "drifted.diff.txt": {Hunks: true}, "drifted.color.txt": {Color: true, Hunks: true}} {
		var b bytes.Buffer
		testkit.Must(t, WriteText(&b, drifted(), as))
		testkit.Golden(t, name, b.Bytes())
	}
}

// TestFoldedOrNot: steps with different consequences or short differences stay apart.
func TestFoldedOrNot(t *testing.T) {
	a, b := "a", "b"
	label := func(m string, v *string) *plan.Step {
		return &plan.Step{ID: "node/" + m, Action: plan.Change, Subject: m, Title: "reconcile node " + m, Deltas: []delta.Delta{delta.Value("label", "x", nil, v)}}
	}
	plain := func(m string, change func(*plan.Step)) *plan.Step {
		s := &plan.Step{ID: "machine/" + m, Action: plan.Create, Subject: m, Title: "wait until " + m + " is ready"}
		change(s)
		return s
	}
	same := func(*plan.Step) {}
	for what, c := range map[string]struct {
		steps []*plan.Step
		want  string // headings
	}{
		"same labels":       {[]*plan.Step{label("m-1", &a), label("m-2", &a)}, "2 machines: m-1, m-2"},
		"other labels":      {[]*plan.Step{label("m-1", &a), label("m-2", &b)}, "m-1|m-2"},
		"same steps":        {[]*plan.Step{plain("m-1", same), plain("m-2", same), plain("m-3", same)}, "3 machines: m-1, m-2, m-3"},
		"another action":    {[]*plan.Step{plain("m-1", same), plain("m-2", func(s *plan.Step) { s.Action = plan.Destroy })}, "m-1|m-2"},
		"rolling":           {[]*plan.Step{plain("m-1", same), plain("m-2", func(s *plan.Step) { s.Rolling = true })}, "m-1|m-2"},
		"consents":          {[]*plan.Step{plain("m-1", func(s *plan.Step) { s.Consent = "c" }), plain("m-2", func(s *plan.Step) { s.Consent = "c" })}, "m-1|m-2"},
		"another title":     {[]*plan.Step{plain("gw-1", func(s *plan.Step) { s.Title = "configure gateway gw-1" }), plain("cp-1", func(s *plan.Step) { s.Title = "configure control-plane cp-1" })}, "gw-1|cp-1"},
		"several per group": {[]*plan.Step{plain("m-1", same), label("m-1", &a), plain("m-2", same), label("m-2", &a), label("m-3", &b)}, "2 machines: m-1, m-2|m-3"},
	} {
		var got []string
		for _, g := range Groups(&plan.Plan{Steps: c.steps}) {
			got = append(got, g.Title)
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%s: %s, want %s", what, s, c.want)
		}
	}
	if got := Groups(&plan.Plan{Steps: []*plan.Step{plain("m-1", same), plain("m-2", same)}})[0].Items[0].Title; got != "wait until … is ready" {
		t.Error(got)
	}
}

// TestDifferencesSurviveJSON: a server's plan shows the same as a local plan, and an agreement does not depend on when a file was modified.
func TestDifferencesSurviveJSON(t *testing.T) {
	p := drifted()
	raw := testkit.Value(json.Marshal(JSON(p)))(t)
	var here, there bytes.Buffer
	testkit.Must(t, WriteText(&here, p, Look{Hunks: true}))
	testkit.Must(t, WriteText(&there, testkit.Value(Parse(raw))(t), Look{Hunks: true}))
	if here.String() != there.String() {
		t.Errorf("here\n%s\nthere\n%s", &here, &there)
	}
	before := testkit.Value(json.Marshal(Agreed(p)))(t)
	p.Estimate = time.Hour
	p.Steps[3].Deltas[0].Modified, p.Steps[3].Deltas[0].ByHand = time.Now(), false
	if after := testkit.Value(json.Marshal(Agreed(p)))(t); !bytes.Equal(before, after) {
		t.Error("an agreement depends on the time")
	}
	if d, err := Differences(p, raw); err != nil || len(d) != 0 {
		t.Errorf("%q, %v", d, err)
	}
	p.Steps[3].Deltas[0].Hunks = []delta.Hunk{{From: 1, To: 1, Lines: []string{"+something else"}}}
	if d, err := Differences(p, raw); err != nil || len(d) != 2 {
		t.Errorf("%q, %v", d, err)
	}
	if bytes.Equal(before, testkit.Value(json.Marshal(Agreed(p)))(t)) {
		t.Error("an agreement covers other contents")
	}
}
