package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/store"
)

// A cluster gets to the release that its document wants in hops, the next of which begins once all machines have made the one before: what
// they are told to run, and what all of them run, are facts.

// StayWith has a document mean what the cluster of a record has where that is not for the document to say.
func StayWith(rec *store.Cluster, doc *v1alpha1.Cluster) {
	StayWithRelease(rec, doc)
	scaling.StayWithSizes(memory.NewFacts(rec, nil), doc)
}

// StayWithRelease has a document that names no release mean the one that the cluster of a record has, or is on the way to: another default of a
// later naupegos is no wish to upgrade. Of a cluster that was never up it means the default.
func StayWithRelease(rec *store.Cluster, doc *v1alpha1.Cluster) {
	k := &doc.Spec.Kubernetes
	if !k.VersionLeftOut {
		return
	}
	told := env.ToldBy(memory.NewFacts(rec, nil), k.Version)
	if k.Version = told.Servers; told.Ahead != "" {
		k.Version = told.Ahead
	}
}

// rememberSoak remembers since when the cluster has been where an upgrade waits.
func (c *Cluster) rememberSoak(ctx context.Context) error {
	switch since := c.Facts.Get(memory.SoakSince); {
	case !c.Told().Soaking() || c.Moving():
		return c.Facts.Set(ctx, memory.SoakSince, "")
	case since == "":
		return c.Facts.Set(ctx, memory.SoakSince, time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// advanceReleases moves on to the next hop once all parts of the cluster run what they are told.
func (c *Cluster) advanceReleases(ctx context.Context) error {
	told, run := c.Told(), c.Told()
	if fact := c.Facts.Get(memory.ReleasesRun); fact != "" && c.Facts.Bootstrapped() {
		var err error
		if run, err = hops.Parse(fact); err != nil {
			return err
		}
	}
	next, err := hops.Turn(told, run, c.Goal())
	if err == nil && told == run {
		next, err = hops.Next(run, c.Goal())
	}
	if err == nil && next != told && c.Facts.Get(memory.Rotation) != "" {
		err = fail.New(fail.Refused, "cluster %s can't go on to another release: keys are being rotated (%s)", c.Name(), c.rotationNote()).Do("let the rotation finish first")
	}
	if err != nil {
		return err
	}
	if err := c.Facts.Set(ctx, memory.Releases, next.String()); err != nil {
		return err
	}
	if err := c.Facts.Set(ctx, memory.ReleasesRun, run.String()); err != nil {
		return err
	}
	return c.Gather(ctx)
}

// upgradeNote says where an upgrade stands; empty where there is none.
func (c *Cluster) upgradeNote() string {
	if c.Moving() {
		return fmt.Sprintf("to Kubernetes %s, not finished: some parts do not run their next version yet; naupegos apply continues", c.Doc.Spec.Kubernetes.Version)
	}
	return c.soakNote()
}

// soakNote says what an upgrade waits for; empty where it waits for nothing.
func (c *Cluster) soakNote() string {
	told := c.Told()
	if c.Moving() || c.Upgrading() || !told.Soaking() {
		return ""
	}
	note := fmt.Sprintf("%s, and machines still run %s: naupegos upgrade %s --finish continues to %s, --back returns to %s", told.Words(), told.Machines, c.Name(), told.Servers, told.Machines)
	if ends := c.SoakEnds(); !ends.IsZero() {
		note += "; after " + ends.Local().Format(time.DateTime) + " naupegos apply finishes it"
	}
	return note
}

// planReleases ends a hop once all machines have made it. Whoever agreed to this step, which tells of the hops that follow, has agreed to them.
func (a *applying) planReleases() {
	run, err := hops.Parse(a.Facts.Get(memory.ReleasesRun))
	told := a.Told()
	if err != nil || told == run || !a.Facts.Bootstrapped() {
		return
	}
	last := told.Machines != run.Machines && a.Facts.Get(memory.Begun) != told.String() // the hop from which no other leads back, before it is begun
	if last && len(a.o.Replaced) == 0 {
		a.add(stage.Prepare, a.beginStep(told))
	}
	reason := fmt.Sprintf("Kubernetes is upgraded from %s to %s in hops: all versions that run together are compatible", run.Machines, a.Doc.Spec.Kubernetes.Version)
	if told == hops.Of(run.Machines) {
		reason = "the upgrade is rolled back"
	}
	step := &plan.Step{
		ID: "upgrade", Action: plan.Change, Subject: "cluster", Title: "verify that " + told.Words(), Reason: reason,
		Details: append(a.Staying(told), a.surgeNote(hopsAfter(told, a.Goal()))...), Announces: plan.Rolling,
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
		step.Consent, step.Details = ConsentObstacles, append(slices.Clone(a.o.Obstacles), step.Details...)
	}
	a.add(stage.Advance, step)
}

// beginStep saves etcd's data before a hop from which only a backup leads back.
func (c *Cluster) beginStep(told hops.Releases) *plan.Step {
	s := c.BackupStep("once etcd of "+told.Machines+" has written data, only a backup leads back", nil)
	save := s.Run
	s.Run = func(ctx context.Context, p plan.Progress) error {
		if err := save(ctx, p); err != nil {
			return err
		}
		return c.Facts.Set(ctx, memory.Begun, told.String())
	}
	return s
}

// ConsentObstacles is what the user must consent to before everything is brought to another release although something may hold that up.
const ConsentObstacles = "obstacles"

// hopsAfter says in words what follows on a hop.
func hopsAfter(now hops.Releases, g hops.Goal) (after []string) {
	path, err := hops.Path(now, g)
	if err != nil {
		return nil // it would have been refused before
	}
	for _, r := range path {
		words := "then " + r.Words()
		if r.Settled() {
			words += ", control plane first, then the workers; from then on only a backup leads back"
		}
		after = append(after, words)
		now = r
	}
	if now.Soaking() {
		after = append(after, "it stays there until naupegos upgrade --finish, or --back")
	}
	return after
}

// Finish has an upgrade go on beyond the last hop from which there is a way back, from the next plan on.
func (c *Cluster) Finish(ctx context.Context) error {
	return c.Facts.Set(ctx, memory.Finish, c.Doc.Spec.Kubernetes.Version)
}

// ReleaseBefore returns the release to which the cluster of a record can go back from an upgrade that is under way. fail.Refused where there is none.
func ReleaseBefore(rec *store.Cluster, doc *v1alpha1.Cluster) (string, error) {
	told := env.ToldBy(memory.NewFacts(rec, nil), doc.Spec.Kubernetes.Version)
	if told.Settled() {
		return "", fail.New(fail.Refused, "everything of cluster %s runs %s, or is on the way there: there is nothing to go back from", doc.Metadata.Name, told.Machines).
			Do("the way back from an upgrade that was finished is a backup")
	}
	return told.Machines, nil
}

// overtaken reports whether a node runs a newer minor than it is told: the store is older than the cluster, and what it says would have etcd
// read what only the newer minor can. Where the user wants the nodes' minor to its end, that is what the cluster is told from now on;
// otherwise it is fail.Refused.
func (c *Cluster) overtaken(ctx context.Context, o *observe.Observed) (bool, error) {
	told, goal := c.Told(), c.Goal()
	for _, name := range slices.Sorted(maps.Keys(o.Nodes)) {
		is := release.MinorOf(o.Nodes[name].Version)
		if release.Compare("v"+is+".0", "v"+release.MinorOf(told.Machines)+".0") <= 0 || o.Machines[name] == nil {
			continue
		}
		if !goal.Finish || release.MinorOf(goal.Version) != is {
			return false, fail.New(fail.Refused, "the node runs %s, and the store says that cluster %s runs %s: it was upgraded by somebody else, or since a backup that the store comes from",
				o.Nodes[name].Version, c.Name(), told.Machines).At(name).Do("naupegos upgrade %s --to %s --finish tells the store", c.Name(), o.Nodes[name].Version)
		}
		for kind, value := range map[memory.Kind]string{
			memory.Releases: hops.Of(goal.Version).String(), memory.ReleasesRun: hops.Of(goal.Version).String(), memory.Finish: "",
		} {
			if err := c.Facts.Set(ctx, kind, value); err != nil {
				return false, err
			}
		}
		return true, c.Gather(ctx)
	}
	return false, nil
}
