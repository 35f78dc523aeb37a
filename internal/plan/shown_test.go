package plan

import (
	"bytes"
	"strings"
	"testing"
)

func TestShownCovers(t *testing.T) {
	one := func(s Step) *Plan { return &Plan{Cluster: "demo", Steps: []*Step{&s}} }
	var nothing Shown
	if nothing.Covers(one(Step{ID: "a"})) || !nothing.Covers(&Plan{}) {
		t.Error("who was shown nothing was shown no step, and all of an empty plan")
	}
	for name, c := range map[string]struct {
		was, now Step
		want     bool
	}{
		"the same":              {Step{ID: "a", Action: Change}, Step{ID: "a", Action: Change, Reason: "another"}, true},
		"finished":              {Step{ID: "a", Action: Create}, Step{ID: "a", Action: Change}, true},
		"waited for":            {Step{ID: "a", Action: Create}, Step{ID: "a", Action: Wait}, true},
		"another step":          {Step{ID: "a", Action: Change}, Step{ID: "b", Action: Change}, false},
		"another action":        {Step{ID: "a", Action: Change}, Step{ID: "a", Action: Destroy}, false},
		"replaced after all":    {Step{ID: "a", Action: Create}, Step{ID: "a", Action: Replace}, false},
		"more disturbing":       {Step{ID: "a", Action: Change}, Step{ID: "a", Action: Change, Rolling: true}, false},
		"less disturbing":       {Step{ID: "a", Action: Change, Rolling: true}, Step{ID: "a", Action: Change}, true},
		"removed, not cleaned":  {Step{ID: "a", Action: Destroy, Rolling: true}, Step{ID: "a", Action: Destroy, Removes: true}, false},
		"with consent":          {Step{ID: "a", Action: Change}, Step{ID: "a", Action: Change, Consent: "x"}, false},
		"with other consent":    {Step{ID: "a", Action: Change, Consent: "y"}, Step{ID: "a", Action: Change, Consent: "x"}, false},
		"with the same consent": {Step{ID: "a", Action: Change, Consent: "x"}, Step{ID: "a", Action: Change, Consent: "x"}, true},
	} {
		var s Shown
		s.Add(one(Step{ID: "other"}))
		s.Add(one(c.was))
		if got := s.Covers(one(c.now)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDisruption(t *testing.T) {
	drop := &Step{ID: "destroy/w-2", Action: Destroy, Subject: "w-2", Removes: true}
	roll := &Step{ID: "configure/cp-1", Action: Change, Subject: "cp-1", Rolling: true}
	calm := &Step{ID: "node/a", Action: Change, Subject: "a"}
	pay := &Step{ID: "machine/b", Action: Replace, Subject: "b", Consent: "replace-machines"}
	for _, c := range []struct {
		plan  Plan
		want  Disruption
		words []string
	}{
		{Plan{Steps: []*Step{calm}}, Undisturbed, []string{"Disruption: none; nothing that serves is restarted."}},
		{Plan{Steps: []*Step{calm, roll}}, Rolling, []string{"Disruption: rolling;"}},
		{Plan{Steps: []*Step{roll, drop}}, Removing, []string{"Disruption: removes w-2 for good", "Disruption: rolling;"}},
		{Plan{Steps: []*Step{pay, roll, drop}}, Disruptive, []string{"Disruption: disruptive;", "Disruption: removes w-2 for good", "Disruption: rolling;"}},
		{Plan{Steps: []*Step{calm, drop}, Cluster: "demo", Final: true}, Final, []string{"Disruption: removes cluster demo and all its data."}},
	} {
		var b bytes.Buffer
		if err := c.plan.WriteText(&b, false); err != nil {
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
