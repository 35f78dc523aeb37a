package operate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// TestYesCoversWhatWasShown: --yes covers all steps of later plans except removals that were never shown.
func TestYesCoversWhatWasShown(t *testing.T) {
	step := func(id string, change func(*plan.Step)) *plan.Step {
		s := &plan.Step{ID: id, Action: plan.Change, Subject: id, Title: "do " + id, Reason: "it is wanted"}
		change(s)
		return s
	}
	removing := func(s *plan.Step) { s.Removes = true }
	first := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{step("worker", removing)}}
	for name, c := range map[string]struct {
		later *plan.Step
		want  string // part of the refusal; empty: it is carried out
	}{
		"shown before":   {step("worker", removing), ""},
		"one by one":     {step("roll", func(s *plan.Step) { s.Rolling = true }), ""},
		"a removal":      {step("other", removing), "do other"},
		"with a consent": {step("other", func(s *plan.Step) { s.Consent = "replace-machines" }), "do other"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			shown := &plan.Shown{}
			shown.Add(first)
			err := further(&plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{c.later}}, shown, Terms{Front: &desk{out: &out}, Yes: true})
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), c.want) || !strings.Contains(out.String(), c.want) {
				t.Errorf("not refused and shown: %v\n%s", err, out.String())
			}
		})
	}
}
