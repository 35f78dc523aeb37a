package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/store"
)

// A cluster gets to the release that its document wants in hops, the next of which begins once all machines have made the one before: what
// they are told to run, and what all of them run, are facts.

// told is what the parts of the cluster are told to run.
func (c *Cluster) told() hops.Releases { return toldBy(c.facts, c.doc.Spec.Kubernetes.Version) }

// toldBy is the same by facts; version is the one where none is remembered: the cluster is new, or from before this was remembered.
func toldBy(f *memory.Facts, version string) hops.Releases {
	if r := restoringBy(f); r != nil && !f.Bootstrapped() {
		return hops.Of(r.Kubernetes)
	}
	if !f.Bootstrapped() {
		return hops.Of(version)
	}
	if r, err := hops.Parse(f.Get(memory.Releases)); err == nil {
		return r
	}
	if title, _, _ := strings.Cut(f.Get(memory.Bundle), " "); title != "" {
		version, _, _ = strings.Cut(title, "+") // the sets of addons follow
	}
	return hops.Of(version)
}

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
	told := toldBy(memory.NewFacts(rec, nil), k.Version)
	if k.Version = told.Servers; told.Ahead != "" {
		k.Version = told.Ahead
	}
}

// goal is where the document wants the cluster to get.
func (c *Cluster) goal() hops.Goal {
	v := c.doc.Spec.Kubernetes.Version
	return hops.Goal{Version: v, Finish: c.facts.Get(memory.Finish) == v || c.soaked()}
}

// soakEnds returns when the document has an upgrade go on that waits for a word; zero where it doesn't, or nothing waits.
func (c *Cluster) soakEnds() time.Time {
	since, err := time.Parse(time.RFC3339, c.facts.Get(memory.SoakSince))
	if d := c.doc.Spec.Updates.Soak.Duration; err == nil && d > 0 && c.told().Soaking() {
		return since.Add(d)
	}
	return time.Time{}
}

// soaked reports whether an upgrade has waited for as long as the document says.
func (c *Cluster) soaked() bool {
	ends := c.soakEnds()
	return !ends.IsZero() && !time.Now().Before(ends) && !c.moving()
}

// rememberSoak remembers since when the cluster has been where an upgrade waits.
func (c *Cluster) rememberSoak(ctx context.Context) error {
	switch since := c.facts.Get(memory.SoakSince); {
	case !c.told().Soaking() || c.moving():
		return c.facts.Set(ctx, memory.SoakSince, "")
	case since == "":
		return c.facts.Set(ctx, memory.SoakSince, time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// releaseRefused says why a cluster that is up can't follow from one release to another; nil where it can.
func releaseRefused(f *memory.Facts, was, now string) *v1alpha1.FieldError {
	told := toldBy(f, was)
	_, err := hops.Path(told, hops.Goal{Version: now, Finish: true})
	if run, e := hops.Parse(f.Get(memory.ReleasesRun)); err == nil && e == nil {
		_, err = hops.Turn(told, run, hops.Goal{Version: now})
	}
	if err == nil {
		return nil
	}
	return &v1alpha1.FieldError{
		Field: "spec.kubernetes.version", Problem: fmt.Sprintf("can't change on a living cluster from %s to %s", told.Machines, now), Hint: "set it back; " + err.Error(),
	}
}

// advanceReleases moves on to the next hop once all parts of the cluster run what they are told.
func (c *Cluster) advanceReleases(ctx context.Context) error {
	told, run := c.told(), c.told()
	if fact := c.facts.Get(memory.ReleasesRun); fact != "" && c.facts.Bootstrapped() {
		var err error
		if run, err = hops.Parse(fact); err != nil {
			return err
		}
	}
	next, err := hops.Turn(told, run, c.goal())
	if err == nil && told == run {
		next, err = hops.Next(run, c.goal())
	}
	if err == nil && next != told && c.facts.Get(memory.Rotation) != "" {
		err = fail.New(fail.Refused, "cluster %s can't go on to another release: keys are being rotated (%s)", c.Name(), c.rotationNote()).Do("let the rotation finish first")
	}
	if err != nil {
		return err
	}
	if err := c.facts.Set(ctx, memory.Releases, next.String()); err != nil {
		return err
	}
	if err := c.facts.Set(ctx, memory.ReleasesRun, run.String()); err != nil {
		return err
	}
	return c.gather(ctx)
}

// upgrading reports whether a later plan has more to do.
func (c *Cluster) upgrading() bool {
	if !c.facts.Bootstrapped() {
		return false
	}
	next, err := hops.Next(c.told(), c.goal())
	return c.moving() || err == nil && next != c.told()
}

// moving reports whether not all parts run what they are told yet.
func (c *Cluster) moving() bool {
	run := c.facts.Get(memory.ReleasesRun)
	return c.facts.Bootstrapped() && run != "" && run != c.told().String()
}

// upgradeNote says where an upgrade stands; empty where there is none.
func (c *Cluster) upgradeNote() string {
	if c.moving() {
		return fmt.Sprintf("to Kubernetes %s, not finished: some parts do not run their next version yet; naupegos apply continues", c.doc.Spec.Kubernetes.Version)
	}
	return c.soakNote()
}

// soakNote says what an upgrade waits for; empty where it waits for nothing.
func (c *Cluster) soakNote() string {
	told := c.told()
	if c.moving() || c.upgrading() || !told.Soaking() {
		return ""
	}
	note := fmt.Sprintf("%s, and machines still run %s: naupegos upgrade %s --finish continues to %s, --back returns to %s", told.Words(), told.Machines, c.Name(), told.Servers, told.Machines)
	if ends := c.soakEnds(); !ends.IsZero() {
		note += "; after " + ends.Local().Format(time.DateTime) + " naupegos apply finishes it"
	}
	return note
}

// planReleases ends a hop once all machines have made it. Whoever agreed to this step, which tells of the hops that follow, has agreed to them.
func (a *applying) planReleases() {
	run, err := hops.Parse(a.facts.Get(memory.ReleasesRun))
	told := a.told()
	if err != nil || told == run || !a.facts.Bootstrapped() {
		return
	}
	last := told.Machines != run.Machines && a.facts.Get(memory.Begun) != told.String() // the hop from which no other leads back, before it is begun
	if last && len(a.o.Replaced) == 0 {
		a.add(stagePrepare, a.beginStep(told))
	}
	reason := fmt.Sprintf("Kubernetes is upgraded from %s to %s in hops: all versions that run together are compatible", run.Machines, a.doc.Spec.Kubernetes.Version)
	if told == hops.Of(run.Machines) {
		reason = "the upgrade is rolled back"
	}
	step := &plan.Step{
		ID: "upgrade", Action: plan.Change, Subject: "cluster", Title: "verify that " + told.Words(), Reason: reason,
		Details: append(a.staying(told), a.surgeNote(hopsAfter(told, a.goal()))...), Announces: plan.Rolling,
		Run: func(ctx context.Context, p plan.Progress) error {
			if err := a.taken(ctx, told.Servers, p); err != nil {
				return err
			}
			if told == hops.Of(a.goal().Version) {
				if err := a.facts.Set(ctx, memory.Finish, ""); err != nil {
					return err
				}
			}
			if err := a.facts.Set(ctx, memory.Begun, ""); err != nil { // the same hop may come again, after others
				return err
			}
			return a.facts.Set(ctx, memory.ReleasesRun, told.String())
		},
	}
	if last && len(a.o.Obstacles) > 0 {
		step.Consent, step.Details = ConsentObstacles, append(slices.Clone(a.o.Obstacles), step.Details...)
	}
	a.add(stageAdvance, step)
}

// beginStep saves etcd's data before a hop from which only a backup leads back.
func (c *Cluster) beginStep(told hops.Releases) *plan.Step {
	s := c.backupStep("once etcd of "+told.Machines+" has written data, only a backup leads back", nil)
	save := s.Run
	s.Run = func(ctx context.Context, p plan.Progress) error {
		if err := save(ctx, p); err != nil {
			return err
		}
		return c.facts.Set(ctx, memory.Begun, told.String())
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

// gather finds or makes the bundles of all releases that are used.
func (c *Cluster) gather(ctx context.Context) error {
	if c.find == nil {
		return nil
	}
	told, have := c.told(), maps.Clone(c.others)
	if have == nil {
		have = map[string]*bundle.Bundle{}
	}
	all := true
	use := told.Versions()
	for _, p := range c.doc.Spec.Workers {
		use = append(use, hops.OfPool(told, p.Version))
	}
	for _, v := range use {
		if have[v] != nil {
			continue
		}
		b, newest, err := c.find(ctx, v)
		if err != nil {
			return err
		}
		if all = all && b != nil; b != nil {
			have[v] = b
		}
		if v == told.Machines {
			c.newest = newest
		}
	}
	c.others, c.bundle = have, nil
	if all {
		c.bundle = have[told.Machines]
	}
	return nil
}

// Bundle returns the bundle of the release that machines run; nil where it is not here.
func (c *Cluster) Bundle() *bundle.Bundle { return c.bundle }

// releaseAt returns a release with its bundle; zero for none.
func (c *Cluster) releaseAt(version string) layout.Release {
	if version == "" {
		return layout.Release{}
	}
	b := c.bundle
	if other := c.others[version]; other != nil {
		b = other
	}
	return layout.Release{Version: version, Bundle: b.Manifest}
}

// release is the cluster's release: what machines run, and what its records and addons are of.
func (c *Cluster) release() layout.Release { return c.releaseAt(c.told().Machines) }

// servers is what the servers of the control plane run where that is something else.
func (c *Cluster) servers() layout.Servers {
	told := c.told()
	if told.Servers == told.Machines {
		return layout.Servers{}
	}
	return layout.Servers{Release: c.releaseAt(told.Servers), Emulates: told.Emulates}
}

// leaderLast lists the wanted machines with the one whose etcd member leads behind all others: each change of the leader holds writes up.
func (o *Observed) leaderLast() []wanted.Slot {
	leads := func(s wanted.Slot) bool {
		return slices.ContainsFunc(o.Health, func(h etcd.Health) bool { return h.Leader && h.Name == s.Name })
	}
	var leader []wanted.Slot
	others := slices.DeleteFunc(slices.Clone(o.Want), func(s wanted.Slot) bool {
		if leads(s) {
			leader = append(leader, s)
		}
		return leads(s)
	})
	return append(others, leader...)
}

// Finish has an upgrade go on beyond the last hop from which there is a way back, from the next plan on.
func (c *Cluster) Finish(ctx context.Context) error {
	return c.facts.Set(ctx, memory.Finish, c.doc.Spec.Kubernetes.Version)
}

// ReleaseBefore returns the release to which the cluster of a record can go back from an upgrade that is under way. fail.Refused where there is none.
func ReleaseBefore(rec *store.Cluster, doc *v1alpha1.Cluster) (string, error) {
	told := toldBy(memory.NewFacts(rec, nil), doc.Spec.Kubernetes.Version)
	if told.Settled() {
		return "", fail.New(fail.Refused, "everything of cluster %s runs %s, or is on the way there: there is nothing to go back from", doc.Metadata.Name, told.Machines).
			Do("the way back from an upgrade that was finished is a backup")
	}
	return told.Machines, nil
}

// overtaken reports whether a node runs a newer minor than it is told: the store is older than the cluster, and what it says would have etcd
// read what only the newer minor can. Where the user wants the nodes' minor to its end, that is what the cluster is told from now on;
// otherwise it is fail.Refused.
func (c *Cluster) overtaken(ctx context.Context, o *Observed) (bool, error) {
	told, goal := c.told(), c.goal()
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
			if err := c.facts.Set(ctx, kind, value); err != nil {
				return false, err
			}
		}
		return true, c.gather(ctx)
	}
	return false, nil
}
