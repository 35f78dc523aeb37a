package plan

import "slices"

// Shown collects the plans that the user has been shown during one command. The zero value is ready to use.
type Shown struct{ plans []*Plan }

// Add records that p was shown.
func (s *Shown) Add(p *Plan) { s.plans = append(s.plans, p) }

// Plans returns the number of shown plans.
func (s *Shown) Plans() int { return len(s.plans) }

// Covers reports whether p does nothing that was not shown: each of its steps was announced or shown with the same work and consent and at least the
// same disruption. A step that was shown as a creation may come again as a change or a wait, which completes it.
func (s *Shown) Covers(p *Plan) bool { return len(s.Beyond(p)) == 0 }

// Beyond returns the steps of p that Covers considers not shown.
func (s *Shown) Beyond(p *Plan) []*Step {
	made := map[string]bool{} // subjects that p creates before the present step
	return slices.DeleteFunc(slices.Clone(p.Steps), func(st *Step) bool {
		covered := s.covers(st, made[st.Subject])
		made[st.Subject] = made[st.Subject] || st.Action == Create && st.Subject != "cluster"
		return covered
	})
}

// covers reports whether a step was shown; made says that its own plan creates its subject.
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

// announces reports whether s has announced a later step. Replacements and disruptive steps never count as announced, and removals only if the later
// step's own plan created the subject.
func (s *Step) announces(later *Step, made bool) bool {
	kept := later.Action != Destroy && later.Action != Replace || later.Action == Destroy && made
	return s.Announces != "" && kept && later.Disruption() != Disruptive && s.Announces.AtLeast(later.Disruption())
}
