package plan

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Empty reports whether the plan has no steps, so that there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Steps) == 0 }

// Counts returns the number of steps per action.
func (p *Plan) Counts() map[Action]int {
	n := map[Action]int{}
	for _, s := range p.Steps {
		n[s.Action]++
	}
	return n
}

// MissingConsents returns, sorted, the consents that steps require and given lacks.
func (p *Plan) MissingConsents(given []string) []string {
	var missing []string
	for _, s := range p.Steps {
		if !s.consented(given) && !slices.Contains(missing, s.Consent) {
			missing = append(missing, s.Consent)
		}
	}
	slices.Sort(missing)
	return missing
}

// consented reports whether a step may be executed: it requires no consent, or its consent was given as a whole or for its subject alone, as in
// "replace-machines=demo-general-1".
func (s *Step) consented(given []string) bool {
	return s.Consent == "" || slices.Contains(given, s.Consent) || slices.Contains(given, s.Consent+"="+s.Subject)
}

// CheckConsents returns an error that names the missing consents and what each of them would allow; nil if none is missing.
func (p *Plan) CheckConsents(given []string) error {
	missing := p.MissingConsents(given)
	if len(missing) == 0 {
		return nil
	}
	var why, flags []string
	for _, name := range missing {
		var titles []string
		for _, s := range p.Steps {
			if s.Consent == name && !s.consented(given) {
				titles = append(titles, s.Title)
			}
		}
		why = append(why, name+" ("+words.First(titles, 5)+")")
		flags = append(flags, "--consent "+name)
	}
	return fail.New(fail.Refused, "%s needs your consent to %s; nothing was changed", p.Verb, strings.Join(why, "; ")).
		At(p.Cluster).Do("to allow it, run the same command with %s; NAME=MACHINE consents for one machine alone", strings.Join(flags, " "))
}

// Check reports whether the plan can be executed: unique step IDs, existing needs, no cycle, and a Run in every step. The error names every fault; it
// is a defect of the planner.
func (p *Plan) Check() error {
	var faults []string
	index := make(map[string]int, len(p.Steps))
	for i, s := range p.Steps {
		if s == nil {
			return fail.New(fail.Internal, "the plan's step number %d is nil", i+1)
		}
		if s.ID == "" {
			faults = append(faults, "a step has no ID: "+s.Title)
		} else if _, twice := index[s.ID]; twice {
			faults = append(faults, "two steps have the ID "+s.ID)
		}
		if s.Run == nil {
			faults = append(faults, s.ID+" has nothing to run")
		}
		index[s.ID] = i
	}
	for _, s := range p.Steps {
		for _, n := range s.Needs {
			if _, ok := index[n]; !ok {
				faults = append(faults, s.ID+" needs "+n+", which is not in the plan")
			}
		}
	}
	if c := p.cycle(index); c != nil {
		faults = append(faults, "steps need each other in a circle: "+strings.Join(c, " → "))
	}
	if len(faults) == 0 {
		return nil
	}
	return defect(p.Cluster, faults)
}

// cycle returns the IDs along one cycle of needs, with its first step repeated at the end; nil if there is none.
func (p *Plan) cycle(index map[string]int) []string {
	const unseen, open, closed = 0, 1, 2
	mark := make([]int, len(p.Steps))
	var path []string
	var visit func(i int) []string
	visit = func(i int) []string {
		mark[i] = open
		path = append(path, p.Steps[i].ID)
		for _, n := range p.Steps[i].Needs {
			j, ok := index[n]
			switch {
			case !ok || mark[j] == closed:
			case mark[j] == open:
				return append(slices.Clone(path[slices.Index(path, p.Steps[j].ID):]), p.Steps[j].ID)
			default:
				if c := visit(j); c != nil {
					return c
				}
			}
		}
		mark[i] = closed
		path = path[:len(path)-1]
		return nil
	}
	for i := range p.Steps {
		if mark[i] == unseen {
			if c := visit(i); c != nil {
				return c
			}
		}
	}
	return nil
}
