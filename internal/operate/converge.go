package operate

import (
	"context"
	"maps"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// rounds limits how many plans Converge carries out. More than one is needed if the first look could not see everything, or if a change takes several stages.
const rounds = 16

// Converge shows the first plan, asks, commits and carries it out. While a plan may leave more to do, Converge plans again; a later plan that exceeds the
// plans already shown is shown and asked for as well. It reports whether it began to carry out any plan, even if that failed.
func (s *Session) Converge(ctx context.Context, first *cluster.Applied, t Terms) (changed bool, err error) {
	if first.Unready != nil { // the commit refuses, but only after the plan was shown: users can plan ahead
		t.Commit = func(context.Context) error { return first.Unready }
	}
	if err := s.begin(ctx, first.Plan, first.Later(), t); err != nil {
		return false, err
	}
	if changed, err = s.rounds(ctx, first, t); err != nil {
		return changed, err
	}
	return changed, s.Cluster.Converged(ctx)
}

// rounds carries out plans, beginning with ap, until one is empty or leaves nothing more to do.
func (s *Session) rounds(ctx context.Context, ap *cluster.Applied, t Terms) (changed bool, err error) {
	shown := &plan.Shown{}
	if t.Agreed != nil {
		shown.Add(t.Agreed)
	}
	for !ap.Plan.Empty() {
		shown.Add(ap.Plan)
		if err := s.execute(ctx, ap.Plan, s.noting(t)); err != nil {
			return true, err
		}
		if changed = true; !ap.More {
			return changed, nil
		}
		if shown.Plans() == rounds {
			name := s.Record.Name
			return changed, fail.New(fail.NotReady, "cluster %s still does not answer after %d rounds", name, rounds).
				Do("look at naupegos status %s and naupegos logs %s", name, name)
		}
		again := s.Cluster.PlanApply
		if ap.Again != nil {
			again = ap.Again
		}
		if ap, err = again(ctx); err != nil {
			return changed, err
		}
		s.entitle(ap.Plan)
		if err := further(ap.Plan, shown, t); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// MetaPause is the journal key, in a run's Meta, of the machine after which a user asked the run to pause.
const MetaPause = "pause-after"

// PausedAfter returns the machine after which a run has paused or will pause; empty if it does not pause.
func PausedAfter(run *plan.RunRecord) string {
	if run.Outcome != plan.OutcomeSucceeded && run.Outcome != plan.OutcomeRunning {
		return ""
	}
	return run.Meta[MetaPause]
}

// noting adds the machine after which the run pauses, if any, to the run's Meta.
func (s *Session) noting(t Terms) Terms {
	if machine := s.Cluster.PausesAfter(); machine != "" {
		meta := maps.Clone(t.Meta)
		if meta == nil {
			meta = map[string]string{}
		}
		meta[MetaPause], t.Meta = machine, meta
	}
	return t
}

// further shows a later plan and asks for agreement, unless the plans already shown cover it: see plan.Shown. Agreement in advance (Terms.Yes) does not
// extend to a removal that was never shown: further shows and refuses such a plan.
func further(p *plan.Plan, shown *plan.Shown, t Terms) error {
	if p.Empty() || shown.Covers(p) {
		return nil
	}
	if err := t.Front.Show(p, ""); err != nil {
		return err
	}
	if t.Yes {
		var lost []string
		for _, st := range shown.Beyond(p) {
			if st.Disruption().AtLeast(plan.Removing) {
				lost = append(lost, st.Title)
			}
		}
		if len(lost) > 0 {
			return fail.New(fail.Refused, "the plan you approved is done; more changes are needed, and they would remove things you have not seen: %s", strings.Join(lost, "; ")).
				Do("look at the plan above; the same command again carries it out")
		}
	}
	err := t.Front.Agree("More changes are needed. Carry them out, too?")
	if fail.KindOf(err) == fail.Interrupted {
		return fail.New(fail.Interrupted, "not confirmed: the first plan is done, the last one is not").Do("naupegos apply continues")
	}
	return err
}
