package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

func documentOf(t *testing.T, version string) *v1alpha1.Cluster {
	t.Helper()
	doc := document(t, 3, 1, 2)
	doc.Spec.Kubernetes.Version = version
	return doc
}

// upgraded returns a lab whose cluster runs a release.
func upgraded(t *testing.T, version string) *lab {
	t.Helper()
	l := newLab(t, documentOf(t, version)).Running(documentOf(t, version))
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bundle, version+" ")) // a made-up bundle has no ID
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(documentOf(t, version).Marshal())(t))))
	testkit.Must(t, l.AdvanceReleases(t.Context()))
	l.everythingDone()
	return l
}

// everythingDone makes all machines and records match their configuration.
func (l *lab) everythingDone() {
	l.t.Helper()
	want, _ := wanted.Assign(l.Doc, nil, nil)
	l.Configure(l.Doc, want)
	testkit.Must(l.t, l.Facts.Set(l.t.Context(), memory.Recorded, l.recordsNow()))
}

func (l *lab) recordsNow() string {
	l.t.Helper()
	p := testkit.Value(l.KubeParams(l.t.Context()))(l.t)
	return testkit.Value(observe.RecordDigest(p))(l.t)
}

// hop plans once.
func (l *lab) hop() string {
	l.t.Helper()
	testkit.Must(l.t, l.AdvanceReleases(l.t.Context()))
	o := l.observed(nil, controlPlanes(3)...)
	o.Health[0].Leader = true
	o.Recorded = l.Facts.Get(memory.Recorded) == l.recordsNow()
	return l.mustPlan(o)
}

// hops plans and simulates the steps until the cluster has reached the document's release; it returns the plans.
func (l *lab) hops(doc *v1alpha1.Cluster) string {
	l.t.Helper()
	l.Doc = doc
	var plans []string
	for {
		got := l.hop()
		if got == "" {
			return strings.Join(plans, "\n")
		}
		if plans = append(plans, got); len(plans) > 8 {
			l.t.Fatalf("no end:\n%s", strings.Join(plans, "\n"))
		}
		if l.Moving() != strings.Contains(got, " upgrade ") {
			l.t.Errorf("is on the way: %v, but the plan is\n%s", l.Moving(), got)
		}
		l.everythingDone()
		if strings.Contains(got, backups.BackupStep) { // which is not taken here
			testkit.Must(l.t, l.Facts.Set(l.t.Context(), memory.Begun, l.Told().String()))
		}
		l.hopMade()
	}
}

// hopMade notes that all machines have made a hop.
func (l *lab) hopMade() {
	l.t.Helper()
	a := l.applying(l.observed(nil, controlPlanes(3)...), nil)
	a.planReleases()
	for _, s := range testkit.Value(a.graph.Seal(stage.ApplyRules))(l.t) {
		if s.ID == "upgrade" {
			testkit.Must(l.t, s.Run(l.t.Context(), nil))
		}
	}
}

// TestUpgradeStages takes a minor, goes back, takes it again to its end, and then a patch, on a cluster that runs.
func TestUpgradeStages(t *testing.T) {
	const old, next = "v1.36.4", "v1.37.2"
	l := upgraded(t, old)
	if plans := l.hops(documentOf(t, old)); plans != "" {
		t.Fatalf("nothing changed, but:\n%s", plans)
	}
	golden(t, "upgrade-soak", l.hops(documentOf(t, next)))
	if want := (hops.Releases{Servers: next, Emulates: "1.36", Machines: old, Ahead: next}); l.Told() != want || l.Upgrading() {
		t.Errorf("the cluster runs %v, want %v; upgrading: %v", l.Told(), want, l.Upgrading())
	}
	if !strings.Contains(l.UpgradeNote(), "upgrade demo --finish continues to "+next+", --back returns to "+old) {
		t.Errorf("it waits for a word: %q", l.UpgradeNote())
	}
	golden(t, "upgrade-back", l.hops(documentOf(t, old)))
	if l.Told() != hops.Of(old) || l.UpgradeNote() != "" {
		t.Errorf("back is %v: %s", l.Told(), l.UpgradeNote())
	}
	l.hops(documentOf(t, next))
	testkit.Must(t, l.Finish(t.Context()))
	golden(t, "upgrade-finish", l.hops(documentOf(t, next)))
	if l.Told() != hops.Of(next) || l.Facts.Get(memory.Finish) != "" {
		t.Errorf("finished is %v", l.Told())
	}
	if plans := l.hops(documentOf(t, next)); plans != "" {
		t.Errorf("after it:\n%s", plans)
	}

	l = upgraded(t, "v1.36.3")
	patch := l.hops(documentOf(t, old))
	golden(t, "upgrade-patch", patch)
	l.hops(documentOf(t, "v1.36.3"))
	if again := l.hops(documentOf(t, old)); again != patch { // the second upgrade also takes a snapshot
		t.Errorf("the same patch a second time:\n%s", again)
	}
}

// TestPoolStays: a pool that names a release keeps it while the others continue, and follows alone once its document changes.
func TestPoolStays(t *testing.T) {
	const old, next = "v1.36.4", "v1.37.2"
	pinned := func(cluster, pool string) *v1alpha1.Cluster {
		doc := document(t, 3, 1, 1, 1)
		doc.Spec.Kubernetes.Version, doc.Spec.Workers[1].Version = cluster, pool
		return doc
	}
	l := newLab(t, pinned(old, old)).Running(pinned(old, old))
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bundle, old+" "))
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(pinned(old, old).Marshal())(t))))
	testkit.Must(t, l.AdvanceReleases(t.Context()))
	l.everythingDone()
	if plans := l.hops(pinned(old, "")); plans != "" {
		t.Errorf("it is what the others are, but:\n%s", plans)
	}
	if plans := l.hops(pinned(old, next)); plans != "" {
		t.Errorf("ahead of the others:\n%s", plans)
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Finish, next))
	plans := l.hops(pinned(next, old))
	for want, n := range map[string]int{"drain/demo-a-1": 1, "drain/demo-b-1": 0, "configure/demo-b-1": 1} { // images of the new release come
		if got := strings.Count(plans, "  change  "+want+"  "); got != n {
			t.Errorf("%s is planned %d times, want %d:\n%s", want, got, n, plans)
		}
	}
	if l.Told() != hops.Of(next) || l.Upgrading() {
		t.Errorf("the cluster runs %v", l.Told())
	}
	if notes := strings.Join(l.Staying(l.Told()), "; "); notes != "pool b stays at "+old {
		t.Errorf("the plan says %q", notes)
	}
	if runs := l.ReleaseOf(wanted.Slot{Name: "demo-b-1", Role: provider.Worker, Pool: "b"}); runs.Version != old || runs.Bundle.Kubernetes != old {
		t.Errorf("its machine runs %s of bundle %s", runs.Version, runs.Bundle.Kubernetes)
	}
	var images []string
	for _, i := range l.have["demo-b-1"].Images {
		images = append(images, i.Refs...)
	}
	for _, v := range []string{old, next} {
		if !strings.Contains(strings.Join(images, " "), "kube-proxy:"+v) {
			t.Errorf("it lacks kube-proxy of %s, which runs on all nodes: %v", v, images)
		}
	}

	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(pinned(next, old).Marshal())(t))))
	l.Doc = pinned(next, next)
	got := l.hop()
	if !strings.Contains(got, "drain/demo-b-1") || strings.Contains(got, "demo-a-1") || strings.Contains(got, "demo-cp-") {
		t.Errorf("it follows alone:\n%s", got)
	}
	l.everythingDone()
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(pinned(next, next).Marshal())(t))))
	testkit.Fails(t, env.CheckChanges(l.Record, pinned(next, old)), fail.Refused, "spec.workers[1].version", "can't change on a living cluster from "+next+" to "+old)
	testkit.Must(t, env.CheckChanges(l.Record, pinned(next, "")))
}

// TestTwoMinors: two minor upgrades run one after another; only the last one can be reverted.
func TestTwoMinors(t *testing.T) {
	l := upgraded(t, "v1.35.8")
	plans := l.hops(documentOf(t, "v1.37.2"))
	if got := strings.Count(plans, " upgrade "); got != 5 {
		t.Errorf("%d hops:\n%s", got, plans)
	}
	if want := "v1.37.2,1.36,v1.36.4,v1.37.2"; l.Told().String() != want {
		t.Errorf("the cluster runs %v, want %s", l.Told(), want)
	}
}

// TestChangedItsMind reverts the target in the middle of each hop.
func TestChangedItsMind(t *testing.T) {
	const old, next = "v1.36.4", "v1.37.2"
	for made := range 2 { // complete hops before the interrupted one
		l := upgraded(t, old)
		l.Doc = documentOf(t, next)
		for range made {
			l.hop()
			l.everythingDone()
			testkit.Must(t, l.Facts.Set(t.Context(), memory.ReleasesRun, l.Told().String()))
		}
		l.hop()
		if back := testkit.Value(staged.ReleaseBefore(l.Record, l.Doc))(t); back != old {
			t.Errorf("back from hop %d is %s", made, back)
		}
		if err := env.CheckChanges(l.Record, documentOf(t, old)); err != nil {
			t.Errorf("back from hop %d: %v", made, err)
		}
		l.hops(documentOf(t, old))
		if l.Told() != hops.Of(old) {
			t.Errorf("back from hop %d is %v", made, l.Told())
		}
	}
	l := upgraded(t, old)
	l.hops(documentOf(t, next))
	testkit.Must(t, l.Finish(t.Context()))
	l.hop()
	if _, err := staged.ReleaseBefore(l.Record, l.Doc); fail.KindOf(err) != fail.Refused {
		t.Errorf("back from the last hop: %v", err)
	}
	if err := env.CheckChanges(l.Record, documentOf(t, old)); err == nil || !strings.Contains(err.Error(), "backup") {
		t.Errorf("back from the last hop: %v", err)
	}
}

// TestReleasesRefused: a release that no hops lead to is refused like a wrong field, with a remedy.
func TestReleasesRefused(t *testing.T) {
	l := upgraded(t, "v1.36.4")
	err := env.CheckChanges(l.Record, documentOf(t, "v1.35.8"))
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "spec.kubernetes.version: can't change on a living cluster from v1.36.4 to v1.35.8") {
		t.Error(err)
	}
	if err := env.CheckChanges(l.Record, documentOf(t, "v1.37.2")); err != nil {
		t.Error(err)
	}
}

// TestOvertaken: a store that is older than the cluster's last upgrade reverts nothing, and adopts the cluster's release once it is known.
func TestOvertaken(t *testing.T) {
	l := upgraded(t, "v1.36.4")
	o := l.observed(nil, controlPlanes(3)...)
	overtaken := func(version string) (bool, error) {
		n := o.Nodes["demo-a-1"]
		n.Version = version
		o.Nodes["demo-a-1"] = n
		return l.Overtaken(t.Context(), o)
	}
	for _, version := range []string{"v1.36.4", "v1.35.8"} {
		if learned, err := overtaken(version); learned || err != nil {
			t.Errorf("a node of %s: %v, %v", version, learned, err)
		}
	}
	if _, err := overtaken("v1.37.2"); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "upgrade demo --to v1.37.2 --finish") {
		t.Errorf("a newer node: %v", err)
	}
	l.Doc = documentOf(t, "v1.37.2") // as the command does
	testkit.Must(t, l.Finish(t.Context()))
	testkit.Must(t, l.AdvanceReleases(t.Context()))
	if learned, err := overtaken("v1.37.2"); !learned || err != nil || l.Told() != hops.Of("v1.37.2") || l.Upgrading() {
		t.Errorf("told so: %v, %v, told %v, upgrading %v", learned, err, l.Told(), l.Upgrading())
	}
	if learned, err := overtaken("v1.37.2"); learned || err != nil {
		t.Errorf("once it knows: %v, %v", learned, err)
	}
}

// TestObstaclesNeedConsent: obstacles of an upgrade require consent for a hop that can't be reverted, and only until that hop has begun.
func TestObstaclesNeedConsent(t *testing.T) {
	l := upgraded(t, "v1.36.4")
	plans := func(obstacles ...string) string {
		testkit.Must(t, l.AdvanceReleases(t.Context()))
		o := l.observed(nil, controlPlanes(3)...)
		o.Obstacles = obstacles
		return l.mustPlan(o)
	}
	const obstacle = "pod default/web-1 has no room"
	l.Doc = documentOf(t, "v1.37.2")
	if got := plans(obstacle); strings.Contains(got, "consent") {
		t.Errorf("nothing is done yet that could not be undone:\n%s", got)
	}
	l.hops(l.Doc)
	testkit.Must(t, l.Finish(t.Context()))
	if got := plans(obstacle); !strings.Contains(got, "consent obstacles "+obstacle) {
		t.Errorf("no consent is asked for:\n%s", got)
	}
	if got := plans(); strings.Contains(got, "consent") {
		t.Errorf("a consent to nothing:\n%s", got)
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Begun, l.Told().String()))
	if got := plans(obstacle); strings.Contains(got, "consent") || strings.Contains(got, backups.BackupStep) {
		t.Errorf("what was begun goes on:\n%s", got)
	}
}

// TestStayWithRelease: a document without a release keeps the cluster's release, whatever the default is.
func TestStayWithRelease(t *testing.T) {
	const old, next = "v1.36.4", "v1.37.2"
	stays := func(l *lab) string {
		doc := testkit.Value(validation.Parse("test", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec: {provider: {local: {}}, workers: [{name: a, replicas: 1}]}\n")))(t)
		staged.StayWithRelease(l.Record, doc)
		return doc.Spec.Kubernetes.Version
	}
	l := upgraded(t, old)
	if got := stays(l); got != old {
		t.Errorf("a cluster of %s becomes %s", old, got)
	}
	l.Doc = documentOf(t, next)
	l.hop()
	if got := stays(l); got != next {
		t.Errorf("on the way to %s it turns to %s", next, got)
	}
	l.everythingDone()
	l.hops(l.Doc)
	if got := stays(l); got != next {
		t.Errorf("while it soaks it turns to %s", got)
	}
	l.hops(documentOf(t, old))
	if got := stays(l); got != old {
		t.Errorf("once it is back it turns to %s", got)
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bootstrapped, ""))
	if got := stays(l); got != v1alpha1.LatestKubernetes {
		t.Errorf("one that was never up gets %s", got)
	}
	named := documentOf(t, old)
	if staged.StayWithRelease(l.Record, named); named.Spec.Kubernetes.Version != old {
		t.Errorf("what is named becomes %s", named.Spec.Kubernetes.Version)
	}
}

// TestSoakEnds: if the document limits how long an upgrade waits for confirmation, the first plan after that continues by itself.
func TestSoakEnds(t *testing.T) {
	const old, next = "v1.36.4", "v1.37.2"
	l := upgraded(t, old)
	doc := documentOf(t, next)
	doc.Spec.Updates.Soak.Duration = 24 * time.Hour
	l.hops(doc)
	testkit.Must(t, l.RememberSoak(t.Context())) // as an apply does that came to its end
	if l.Upgrading() || !l.Told().Soaking() || !strings.Contains(l.UpgradeNote(), " naupegos apply finishes it") {
		t.Errorf("it waits until %v: %q", l.SoakEnds(), l.UpgradeNote())
	}
	since := l.Facts.Get(memory.SoakSince)
	testkit.Must(t, l.RememberSoak(t.Context()))
	if l.Facts.Get(memory.SoakSince) != since {
		t.Error("another apply begins the time anew")
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.SoakSince, time.Now().Add(-23*time.Hour).UTC().Format(time.RFC3339)))
	if plans := l.hops(doc); plans != "" {
		t.Errorf("an hour before:\n%s", plans)
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.SoakSince, time.Now().Add(-25*time.Hour).UTC().Format(time.RFC3339)))
	if !l.Upgrading() {
		t.Error("the cluster does not say that there is more to do")
	}
	golden(t, "upgrade-finish", l.hops(doc)) // as with --finish
	testkit.Must(t, l.RememberSoak(t.Context()))
	if l.Told() != hops.Of(next) || l.Facts.Get(memory.SoakSince) != "" {
		t.Errorf("in the end: %v, since %q", l.Told(), l.Facts.Get(memory.SoakSince))
	}
}

// TestUsersChecks: the user's checks run after each machine and before anything of the next one.
func TestUsersChecks(t *testing.T) {
	const old, next = "v1.36.4", "v1.37.2"
	l := upgraded(t, old)
	doc := documentOf(t, next)
	doc.Spec.Updates.Checks = []v1alpha1.Check{{Name: "shop", APIVersion: "apps/v1", Kind: "Deployment", Expression: "true"}}
	l.hops(doc)
	testkit.Must(t, l.Finish(t.Context()))
	golden(t, "upgrade-checks", l.hops(doc))
}
