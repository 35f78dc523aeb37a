package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// applyRounds bounds how often apply looks again when it could not see everything at first.
const applyRounds = 4

// run is a verb's way from its first plan to a cluster that is as wanted.
type run struct {
	flags    *runFlags
	step     time.Duration               // bound of a step that has none of its own
	first    *cluster.Applied            // the plan to begin with
	question string                      // asked below the first plan
	reviewed bool                        // the first plan was agreed to before: it is shown, and not asked for
	commit   func(context.Context) error // remembers what is wanted now: after the agreement, before the first step
}

// converge shows the first plan, asks, commits and carries it out; then it plans again until nothing is left to do. What a later
// plan would do beyond what was shown is shown and asked for as well.
func (s *session) converge(ctx context.Context, r run) (changed bool, err error) {
	if err := s.begin(ctx, r); err != nil {
		return false, err
	}
	if changed, err = s.rounds(ctx, r); err != nil {
		return changed, err
	}
	return changed, s.cluster.Converged(ctx)
}

// rounds carries out the first plan and then those that follow from it.
func (s *session) rounds(ctx context.Context, r run) (changed bool, err error) {
	shown := &plan.Shown{}
	for ap := r.first; !ap.Plan.Empty(); {
		shown.Add(ap.Plan)
		if err := s.execute(ctx, ap.Plan, r.flags, r.step); err != nil {
			return true, err
		}
		if changed = true; !ap.More {
			return changed, nil
		}
		if shown.Plans() == applyRounds {
			name := s.rec.Name
			return changed, fail.New(fail.NotReady, "cluster %s still does not answer after %d rounds", name, applyRounds).
				Do("look at naupegos status %s and naupegos logs %s", name, name)
		}
		if ap, err = s.cluster.PlanApply(ctx); err != nil {
			return changed, err
		}
		if err := s.further(r.flags, ap.Plan, shown); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// begin shows the first plan, asks, and commits. A plan without steps asks nobody: what is wanted is remembered all the same.
func (s *session) begin(ctx context.Context, r run) error {
	if ap := r.first; !ap.Plan.Empty() {
		if err := s.app.show(r.flags, ap.Plan); err != nil {
			return err
		}
		if later := ap.Later(); later != "" && !r.flags.json() {
			fmt.Fprintln(s.app.Err, later)
		}
		if err := ap.Plan.CheckConsents(r.flags.consents.given); err != nil {
			return err
		}
		if !r.reviewed {
			if err := s.app.confirm(r.flags, r.question); err != nil {
				return err
			}
		}
	}
	return r.commit(ctx)
}

// further shows and asks for a later plan, unless it holds only what was shown already.
func (s *session) further(f *runFlags, p *plan.Plan, shown *plan.Shown) error {
	if p.Empty() || shown.Covers(p) {
		return nil
	}
	if f.yes {
		if err := s.beyondYes(f, p, shown); err != nil {
			return err
		}
	}
	err := s.app.agree(f, p, "More was found to do. Carry this out, too?")
	if fail.KindOf(err) == fail.Interrupted {
		return fail.New(fail.Interrupted, "not confirmed: what was shown first is done, what was shown last is not").Do("naupegos apply continues")
	}
	return err
}

// beyondYes refuses, of a plan that is found later, what --yes does not cover: to give up something that nobody was shown.
func (s *session) beyondYes(f *runFlags, p *plan.Plan, shown *plan.Shown) error {
	var lost []string
	for _, st := range shown.Beyond(p) {
		if st.Disruption().AtLeast(plan.Removing) {
			lost = append(lost, st.Title)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if err := s.app.show(f, p); err != nil {
		return err
	}
	return fail.New(fail.Refused, "what was shown first is done; now more was found to do, which takes something away that was not shown: %s", strings.Join(lost, "; ")).
		Do("look at the plan above; the same command again carries it out")
}
