package plan

import "testing"

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
		"announced":             {Step{ID: "a", Announces: Rolling}, Step{ID: "b", Action: Change, Rolling: true}, true},
		"announced, and gone":   {Step{ID: "a", Announces: Rolling}, Step{ID: "b", Action: Destroy, Rolling: true}, false},
	} {
		var s Shown
		s.Add(one(Step{ID: "other"}))
		s.Add(one(c.was))
		if got := s.Covers(one(c.now)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestShownCoversWhatComesAndGoes: if a plan creates a subject and removes it again, the removal is announced like a change; a removal without, or
// before, a creation is not.
func TestShownCoversWhatComesAndGoes(t *testing.T) {
	var s Shown
	s.Add(&Plan{Steps: []*Step{{ID: "upgrade", Announces: Rolling}}})
	made, gone := &Step{ID: "make", Action: Create, Subject: "m"}, &Step{ID: "destroy", Action: Destroy, Subject: "m", Rolling: true}
	for name, c := range map[string]struct {
		steps []*Step
		want  bool
	}{
		"made and taken away":  {[]*Step{made, gone}, true},
		"taken away":           {[]*Step{gone}, false},
		"another is made":      {[]*Step{{ID: "make", Action: Create, Subject: "n"}, gone}, false},
		"replaced":             {[]*Step{gone, made}, false},
		"taken away for good":  {[]*Step{made, {ID: "destroy", Action: Destroy, Subject: "m", Removes: true}}, false},
		"something of a whole": {[]*Step{{ID: "make", Action: Create, Subject: "cluster"}, {ID: "destroy", Action: Destroy, Subject: "cluster", Rolling: true}}, false},
	} {
		if got := s.Covers(&Plan{Steps: c.steps}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
