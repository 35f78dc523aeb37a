package plan

import "slices"

// Shown is what somebody was shown of one command: the plans before the one at hand. The zero value is ready.
type Shown struct{ plans []*Plan }

// Add notes that p was shown.
func (s *Shown) Add(p *Plan) { s.plans = append(s.plans, p) }

// Plans returns how many were shown.
func (s *Shown) Plans() int { return len(s.plans) }

// Covers reports whether p does nothing that was not shown: each of its steps was there, no less disturbing, needing the same
// consent, and doing the same, or was announced. What was shown as created may come again as changed or waited for: it is finished then.
func (s *Shown) Covers(p *Plan) bool { return len(s.Beyond(p)) == 0 }

// Beyond returns the steps of p that were not shown, in the sense of Covers.
func (s *Shown) Beyond(p *Plan) []*Step {
	made := map[string]bool{} // what p makes before it comes to a step
	return slices.DeleteFunc(slices.Clone(p.Steps), func(st *Step) bool {
		covered := s.covers(st, made[st.Subject])
		made[st.Subject] = made[st.Subject] || st.Action == Create && st.Subject != "cluster"
		return covered
	})
}

// covers reports whether a step was shown; made: its own plan makes its subject.
func (s *Shown) covers(st *Step, made bool) bool {
	for _, p := range s.plans {
		for _, was := range p.Steps {
			same := was.Action == st.Action || was.Action == Create && (st.Action == Change || st.Action == Wait)
			if was.announces(st, made) || was.ID == st.ID && same && was.Consent == st.Consent && was.Disruption().AtLeast(st.Disruption()) {
				return true
			}
		}
	}
	return false
}

// announces reports whether a later step is of what s has announced: nothing that is taken away or replaced, unless its own plan made it.
func (s *Step) announces(later *Step, made bool) bool {
	kept := later.Action != Destroy && later.Action != Replace || later.Action == Destroy && made
	return s.Announces != "" && kept && later.Disruption() != Disruptive && s.Announces.AtLeast(later.Disruption())
}
