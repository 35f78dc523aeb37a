package staged

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
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/store"
)

// StayWith sets in a document the release and the pool sizes of the record's cluster that the document leaves out.
func StayWith(rec *store.Cluster, doc *v1alpha1.Cluster) {
	StayWithRelease(rec, doc)
	scaling.StayWithSizes(memory.NewFacts(rec, nil), doc)
}

// StayWithRelease sets the release of the record's cluster, or the release that it is on the way to, in a document without one: a newer default of a later
// naupegos is no wish to upgrade. For a cluster that was never up, the default applies.
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

// RememberSoak remembers since when the cluster has been where an upgrade waits.
func (c *Staged) RememberSoak(ctx context.Context) error {
	switch since := c.Facts.Get(memory.SoakSince); {
	case !c.Told().Soaking() || c.Moving():
		return c.Facts.Set(ctx, memory.SoakSince, "")
	case since == "":
		return c.Facts.Set(ctx, memory.SoakSince, time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// AdvanceReleases moves on to the next hop once all parts of the cluster run their releases.
func (c *Staged) AdvanceReleases(ctx context.Context) error {
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
		err = fail.New(fail.Refused, "cluster %s can't go on to another release: keys are being rotated (%s)", c.Name(), c.RotationNote()).Do("let the rotation finish first")
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

// UpgradeNote describes an upgrade in progress; "" without one.
func (c *Staged) UpgradeNote() string {
	if c.Moving() {
		return fmt.Sprintf("to Kubernetes %[1]s, not finished: some parts do not run their next version yet; naupegos upgrade %[2]s --to %[1]s continues", c.Doc.Spec.Kubernetes.Version, c.Name())
	}
	return c.SoakNote()
}

// SoakNote describes what an upgrade waits for; "" if it waits for nothing.
func (c *Staged) SoakNote() string {
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

// BeginStep saves etcd's data before a hop from which only a backup leads back.
func (c *Staged) BeginStep(told hops.Releases) *plan.Step {
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

// ConsentObstacles is the consent to an upgrade despite its obstacles.
const ConsentObstacles = "obstacles"

// HopsAfter describes the hops that follow.
func HopsAfter(now hops.Releases, g hops.Goal) (after []string) {
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

// Finish makes an upgrade continue, from the next plan on, beyond the last hop that can be reverted.
func (c *Staged) Finish(ctx context.Context) error {
	return c.Facts.Set(ctx, memory.Finish, c.Doc.Spec.Kubernetes.Version)
}

// ReleaseBefore returns the release to which an upgrade in progress can go back. It returns fail.Refused without one.
func ReleaseBefore(rec *store.Cluster, doc *v1alpha1.Cluster) (string, error) {
	told := env.ToldBy(memory.NewFacts(rec, nil), doc.Spec.Kubernetes.Version)
	if told.Settled() {
		return "", fail.New(fail.Refused, "everything of cluster %s runs %s, or is on the way there: there is nothing to go back from", doc.Metadata.Name, told.Machines).
			Do("the way back from an upgrade that was finished is a backup")
	}
	return told.Machines, nil
}

// Overtaken reports whether a node runs a newer minor than the facts say: the store is older than the cluster, and an older etcd could not read the data. If
// the document wants the nodes' minor, the facts follow the nodes; otherwise it returns fail.Refused.
func (c *Staged) Overtaken(ctx context.Context, o *observe.Observed) (bool, error) {
	told, goal := c.Told(), c.Goal()
	for _, name := range slices.Sorted(maps.Keys(o.Nodes)) {
		is := release.MinorOf(o.Nodes[name].Version)
		if release.Compare("v"+is+".0", "v"+release.MinorOf(told.Machines)+".0") <= 0 || o.Machines[name] == nil {
			continue
		}
		if !goal.Finish || release.MinorOf(goal.Version) != is {
			return false, fail.New(fail.Refused, "the node runs %s, and the store says that cluster %s runs %s: the upgrade was made elsewhere, or after the backup that the store was restored from",
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
