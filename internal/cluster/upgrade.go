package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/plan"
)

// A cluster reaches the release of its document in hops. A hop begins once all machines have completed the previous one. Facts record the
// releases that machines are configured for, and the releases that all of them run.

// planReleases ends a hop once all machines have completed it. Consent to this step, which lists the following hops, covers them, too.
func (a *applying) planReleases() {
	run, err := hops.Parse(a.Facts.Get(memory.ReleasesRun))
	told := a.Told()
	if err != nil || told == run || !a.Facts.Bootstrapped() {
		return
	}
	last := told.Machines != run.Machines && a.Facts.Get(memory.Begun) != told.String() // the last hop that can't be reverted, before it begins
	if last && len(a.o.Replaced) == 0 {
		a.add(stage.Prepare, a.BeginStep(told))
	}
	reason := fmt.Sprintf("Kubernetes is upgraded from %s to %s in hops: all versions that run together are compatible", run.Machines, a.Doc.Spec.Kubernetes.Version)
	if told == hops.Of(run.Machines) {
		reason = "the upgrade is rolled back"
	}
	step := &plan.Step{
		ID: "upgrade", Action: plan.Change, Subject: "cluster", Title: "verify that " + told.Words(), Reason: reason,
		Details: append(a.Staying(told), a.surgeNote(staged.HopsAfter(told, a.Goal()))...), Announces: plan.Rolling,
		Run: func(ctx context.Context, p plan.Progress) error {
			if err := a.Taken(ctx, told.Servers, p); err != nil {
				return err
			}
			if told == hops.Of(a.Goal().Version) {
				if err := a.Facts.Set(ctx, memory.Finish, ""); err != nil {
					return err
				}
			}
			if err := a.Facts.Set(ctx, memory.Begun, ""); err != nil { // the same hop may come again, after others
				return err
			}
			return a.Facts.Set(ctx, memory.ReleasesRun, told.String())
		},
	}
	if last && len(a.o.Obstacles) > 0 {
		step.Consent, step.Details = staged.ConsentObstacles, append(slices.Clone(a.o.Obstacles), step.Details...)
	}
	a.add(stage.Advance, step)
}
