package show

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/plan"
)

// TestLeftOut: a plan without steps also shows what it leaves out.
func TestLeftOut(t *testing.T) {
	var b bytes.Buffer
	if err := WriteText(&b, &plan.Plan{LeftOut: []string{"2 steps of cluster"}}, Look{}); err != nil || b.String() != "No changes.\nLeft out: 2 steps of cluster.\n" {
		t.Errorf("%v: %s", err, &b)
	}
}

func TestDisruption(t *testing.T) {
	drop := &plan.Step{ID: "destroy/w-2", Action: plan.Destroy, Subject: "w-2", Removes: true}
	roll := &plan.Step{ID: "configure/cp-1", Action: plan.Change, Subject: "cp-1", Rolling: true}
	calm := &plan.Step{ID: "node/a", Action: plan.Change, Subject: "a"}
	pay := &plan.Step{ID: "machine/b", Action: plan.Replace, Subject: "b", Consent: "replace-machines"}
	for _, c := range []struct {
		plan  plan.Plan
		want  plan.Disruption
		words []string
	}{
		{plan.Plan{Steps: []*plan.Step{calm}}, plan.Undisturbed, []string{"Disruption: none; nothing in service is restarted."}},
		{plan.Plan{Steps: []*plan.Step{{ID: "c", Action: plan.Change, Subject: "x", Announces: plan.Rolling}}}, plan.Rolling,
			[]string{"Disruption: rolling; what is in service is restarted in turn, in plans that follow this one."}},
		{plan.Plan{Steps: []*plan.Step{calm, roll}}, plan.Rolling, []string{"Disruption: rolling;"}},
		{plan.Plan{Verb: "reset", Steps: []*plan.Step{drop}}, plan.Removing, []string{"Disruption: removes Kubernetes from w-2, with the data"}},
		{plan.Plan{Steps: []*plan.Step{roll, drop}}, plan.Removing, []string{"Disruption: removes w-2 permanently", "Disruption: rolling;"}},
		{plan.Plan{Steps: []*plan.Step{pay, roll, drop}}, plan.Disruptive, []string{"Disruption: disruptive;", "Disruption: removes w-2 permanently", "Disruption: rolling;"}},
		{plan.Plan{Steps: []*plan.Step{calm, drop}, Cluster: "demo", Final: true}, plan.Final, []string{"Disruption: removes cluster demo and all its data."}},
	} {
		var b bytes.Buffer
		if err := WriteText(&b, &c.plan, Look{}); err != nil {
			t.Fatal(err)
		}
		if c.plan.Disruption() != c.want || strings.Count(b.String(), "Disruption:") != len(c.words) {
			t.Errorf("want %s, got %s in\n%s", c.want, c.plan.Disruption(), b.String())
		}
		for _, w := range c.words {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%q is not in\n%s", w, b.String())
			}
		}
	}
}

// TestNarrow is stumble 22 for plans: no line but a file's is wider than the terminal, and lines break at words, with and without colours.
func TestNarrow(t *testing.T) {
	long := "a reason that has more words than a narrow terminal has columns"
	p := &plan.Plan{Cluster: "demo", Verb: "apply", Warnings: []string{long}, LeftOut: []string{long},
		Steps: []*plan.Step{{ID: "configure/demo-cp-1", Action: plan.Replace, Subject: "demo-cp-1", Title: "configure the control plane on demo-cp-1", Reason: long, Details: []string{"host setting fs.inotify.max_user_instances: 128 → 2048"}}}}
	for _, color := range []bool{false, true} {
		var wide, narrow bytes.Buffer
		if err := errors.Join(WriteText(&wide, p, Look{Color: color}), WriteText(&narrow, p, Look{Color: color, Width: 40})); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(narrow.String()) {
			if n := ansi.StringWidth(strings.TrimSuffix(line, "\n")); n > 40 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		if a, b := strings.Fields(ansi.Strip(wide.String())), strings.Fields(ansi.Strip(narrow.String())); !slices.Equal(a, b) {
			t.Errorf("the words are %q, want %q", b, a)
		}
		if got := ansi.Strip(narrow.String()); !strings.Contains(got, "\n  -/+ configure the control plane on\n      demo-cp-1 (a reason that has more\n      words") {
			t.Error(got)
		}
	}
}
