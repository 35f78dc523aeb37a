package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/testkit"
)

// rotatable returns a lab with a healthy running cluster.
func rotatable(t *testing.T) *lab { return rotatableOf(t, document(t, 3, 1, 2)) }

func rotatableOf(t *testing.T, doc *v1alpha1.Cluster) *lab {
	t.Helper()
	l := newLab(t, doc)
	testkit.Must(t, l.PKI.Ensure(t.Context()))
	l.Running(doc)
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Converged, string(testkit.Value(doc.Marshal())(t))))
	testkit.Must(t, l.AdvanceReleases(t.Context()))
	l.everythingDone()
	return l
}

// phase plans once.
func (l *lab) phase() string { return l.mustPlan(l.observedPhase()) }

func (l *lab) observedPhase() *observe.Observed {
	l.t.Helper()
	testkit.Must(l.t, l.AdvanceEncryption(l.t.Context()))
	testkit.Must(l.t, l.AdvanceRotation(l.t.Context()))
	testkit.Must(l.t, l.AdvanceReleases(l.t.Context()))
	o := l.observed(nil, controlPlanes(3)...)
	o.Health[0].Leader = true
	return o
}

// ended simulates the steps of a phase.
func (l *lab) ended() {
	l.t.Helper()
	l.everythingDone()
	now := testkit.Value(l.ToldRotation())(l.t)
	scan := &staged.RotationScan{Staged: l.Staged, Now: now}
	if now.Phase == rotation.Make {
		testkit.Must(l.t, scan.Make(l.t.Context(), silent{}))
		return
	}
	if now.Next().IsZero() {
		testkit.Must(l.t, scan.Forget(l.t.Context()))
		return
	}
	testkit.Must(l.t, l.Facts.Set(l.t.Context(), memory.RotationRun, now.String()))
}

func (l *lab) secretNames() []string {
	return testkit.Value(l.Secrets.Names(l.t.Context()))(l.t)
}

// TestRotationPhases rotates everything in three plans, without draining a node, and checks the trusted authorities in each.
func TestRotationPhases(t *testing.T) {
	l := rotatable(t)
	before := l.secretNames()
	if isNew := testkit.Value(l.Rotate(t.Context(), pki.Rotated(), false))(t); !isNew {
		t.Error("it was under way before")
	}
	var plans []string
	for l.Rotating() {
		if len(plans) > 3 {
			t.Fatalf("no end:\n%s", strings.Join(plans, "\n"))
		}
		got := l.phase()
		plans = append(plans, got)
		for _, what := range []string{"drain/", "cordon/", "delete/"} {
			if strings.Contains(got, what) {
				t.Errorf("a rotation does %s:\n%s", what, got)
			}
		}
		if l.RotationNote() == "" {
			t.Error("nothing says that it is under way")
		}
		l.ended()
	}
	golden(t, "rotation", strings.Join(plans, "\n"))
	if got := l.phase(); got != "" {
		t.Errorf("after it:\n%s", got)
	}
	for _, name := range []string{"authority/kubernetes-ca", "service-account"} {
		if after := l.secretNames(); !slices.Contains(before, name) || slices.Contains(after, name) || !slices.Contains(after, name+"/2") {
			t.Errorf("%s: before %v, after %v", name, before, after)
		}
	}
	if g := l.PKI.Generations(pki.EtcdCA); g != (pki.Generations{Signs: 2}) || l.RotationNote() != "" {
		t.Errorf("in the end it is %v: %s", g, l.RotationNote())
	}
}

// TestRotationIsAgreedTo: a server plans again after the agreement, and generates other keys: the two plans are equal to the last byte.
func TestRotationIsAgreedTo(t *testing.T) {
	doc := document(t, 3, 1, 2)
	doc.Spec.Access.WireGuard = wireGuardDoc(t, "10.9.0.0/28", "anna", "ben").Spec.Access.WireGuard
	for name, rotate := range map[string]func(l *lab) error{
		"keys":       func(l *lab) error { _, err := l.Rotate(t.Context(), pki.Rotated(), false); return err },
		"encryption": func(l *lab) error { _, err := l.RotateEncryption(t.Context()); return err },
		"wireguard":  func(l *lab) error { _, err := l.RotateWireGuard(t.Context()); return err },
	} {
		var plans, keys [2]string
		for i := range plans {
			l := rotatableOf(t, doc)
			testkit.Must(t, rotate(l))
			o := l.observedPhase()
			machines := testkit.Value(l.infrastructure(t.Context(), o))(t)
			p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: testkit.Value(l.steps(o, machines))(t)}
			plans[i] = string(testkit.Value(show.JSON(p).MarshalJSON())(t))
			for _, n := range l.secretNames() {
				keys[i] += n + string(testkit.Value(l.Secrets.Get(t.Context(), n))(t))
			}
			if p.Empty() {
				t.Errorf("%s changes nothing", name)
			}
		}
		if plans[0] != plans[1] {
			t.Errorf("%s: planned is\n%s\nand then\n%s", name, plans[0], plans[1])
		}
		if keys[0] == keys[1] {
			t.Errorf("%s: the keys are the same, which shows nothing", name)
		}
	}
}

// TestRotationOfOne touches no more machines than necessary.
func TestRotationOfOne(t *testing.T) {
	for key, still := range map[string]string{
		pki.ServiceAccountKeyName: "demo-gw-1", pki.EtcdCA: "demo-a-1", pki.FrontProxyCA: "demo-a-1",
	} {
		l := rotatable(t)
		testkit.Value(l.Rotate(t.Context(), []string{key}, false))(t)
		got := l.phase()
		if strings.Contains(got, "configure/"+still) || !strings.Contains(got, "configure/demo-cp-1") || strings.Contains(got, "kubeadm/") {
			t.Errorf("%s:\n%s", key, got)
		}
	}
}

// TestRotationStays: a held rotation continues only on request, and can be reverted only while that is possible.
func TestRotationStays(t *testing.T) {
	l := rotatable(t)
	testkit.Value(l.Rotate(t.Context(), []string{pki.KubernetesCA}, true))(t)
	l.phase()
	if _, err := l.Rotate(t.Context(), []string{pki.EtcdCA}, false); fail.KindOf(err) != fail.Refused {
		t.Errorf("another rotation meanwhile: %v", err)
	}
	if isNew := testkit.Value(l.Rotate(t.Context(), []string{pki.KubernetesCA}, true))(t); isNew {
		t.Error("the same rotation begins anew")
	}
	l.ended()
	l.phase()
	l.ended()
	for range 2 {
		if got := l.phase(); got != "" || l.Rotating() || !strings.Contains(l.RotationNote(), "--finish") {
			t.Errorf("it does not stay: %s\n%s", l.RotationNote(), got)
		}
	}
	if err := l.AbandonRotation(t.Context()); fail.KindOf(err) != fail.Refused {
		t.Errorf("what is in use is taken back: %v", err)
	}
	testkit.Must(t, l.FinishRotation(t.Context()))
	if got := l.phase(); !strings.Contains(got, "configure/demo-a-1") || !l.Rotating() {
		t.Errorf("it does not go on:\n%s", got)
	}
	l.ended()
	if err := l.FinishRotation(t.Context()); fail.KindOf(err) != fail.Refused {
		t.Errorf("nothing is finished: %v", err)
	}
}

// TestRotationAbandoned ends with the keys that were, and none of the next.
func TestRotationAbandoned(t *testing.T) {
	l := rotatable(t)
	before := l.secretNames()
	was := l.have["demo-cp-1"].Digest()
	testkit.Value(l.Rotate(t.Context(), []string{pki.KubernetesCA, pki.ServiceAccountKeyName}, false))(t)
	l.phase()
	l.everythingDone() // and killed then
	testkit.Must(t, l.AbandonRotation(t.Context()))
	if got := l.phase(); !strings.Contains(got, "configure/demo-cp-1") || !strings.Contains(got, "rotation") {
		t.Errorf("the way back is\n%s", got)
	}
	l.ended()
	if got := l.phase(); got != "" || l.Rotating() || l.have["demo-cp-1"].Digest() != was || !slices.Equal(l.secretNames(), before) {
		t.Errorf("taken back, there are %v, before %v:\n%s", l.secretNames(), before, got)
	}
}

// TestRotationWaitsForAMachine: an unreachable machine is reported, and no key is used or dropped before the machine is back and has caught up.
func TestRotationWaitsForAMachine(t *testing.T) {
	const away = "demo-a-2"
	l := rotatable(t)
	testkit.Value(l.Rotate(t.Context(), []string{pki.SSHKeyName}, false))(t)
	for _, phase := range []rotation.Phase{rotation.Trust, rotation.Use} {
		l.phase()
		l.everythingDone()
		l.SetTarget(wantedOf(l))
		scan := &staged.RotationScan{Staged: l.Staged, Now: testkit.Value(l.ToldRotation())(t)}
		if scan.Now.Phase != phase {
			t.Fatalf("it is where %s", scan.Now.Words())
		}
		ends := func(says machine.Report, err error) error {
			scan.Ask = func(_ context.Context, m wanted.Slot) (machine.Report, error) {
				if m.Name == away {
					return says, err
				}
				return machine.Report{}, nil
			}
			return scan.End(t.Context(), silent{})
		}
		stays := func() {
			t.Helper()
			testkit.Must(t, l.AdvanceRotation(t.Context()))
			if now := testkit.Value(l.ToldRotation())(t); now.String() != scan.Now.String() || !strings.Contains(l.RotationNote(), "naupegos apply continues") {
				t.Errorf("it went on without %s to where %s: %s", away, now.Words(), l.RotationNote())
			}
		}
		testkit.Fails(t, ends(machine.Report{}, fail.New(fail.Unreachable, "no answer").At(away)), fail.Unreachable, away)
		stays()
		missed := machine.Report{Changes: []machine.Change{{Kind: "file", Name: "/root/.ssh/authorized_keys", Action: "update"}}}
		testkit.Fails(t, ends(missed, nil), fail.NotReady, away, "authorized_keys", "naupegos apply continues")
		stays()
		testkit.Must(t, ends(machine.Report{}, nil))
	}
	testkit.Must(t, l.AdvanceRotation(t.Context()))
	if now := testkit.Value(l.ToldRotation())(t); now.Phase != rotation.Drop {
		t.Errorf("once it is back, it is where %s", now.Words())
	}
}

// TestRotationAndUpgrade: a rotation and an upgrade never run at the same time.
func TestRotationAndUpgrade(t *testing.T) {
	l := upgraded(t, "v1.36.4")
	testkit.Value(l.Rotate(t.Context(), pki.Rotated(), false))(t)
	l.Doc = documentOf(t, "v1.37.2")
	if err := l.AdvanceReleases(t.Context()); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "rotated") {
		t.Errorf("an upgrade in the middle of a rotation: %v", err)
	}
	l = upgraded(t, "v1.36.4")
	l.Doc = documentOf(t, "v1.37.2")
	testkit.Must(t, l.AdvanceReleases(t.Context()))
	if _, err := l.Rotate(t.Context(), pki.Rotated(), false); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "upgraded") {
		t.Errorf("a rotation in the middle of an upgrade: %v", err)
	}
}

// TestPodsBehind lists the pods that a rotation must wait for.
func TestPodsBehind(t *testing.T) {
	names := map[string]string{"1": "a/fine", "2": "a/token", "3": "a/authority", "4": "a/given-none"}
	got := staged.BehindOn([]machine.Credential{
		{Pod: "1", KeyID: "next", Authorities: []string{"former", "ca"}}, {Pod: "2", KeyID: "former", Authorities: []string{"ca"}},
		{Pod: "3", KeyID: "next", Authorities: []string{"former"}}, {Pod: "4", KeyID: "next"}, {Pod: "gone", KeyID: "former"},
	}, names, "next", "ca")
	if want := []string{"a/token", "a/authority"}; !slices.Equal(got, want) {
		t.Errorf("behind are %v, want %v", got, want)
	}
}

// TestRotationIsTold has the first plan announce the others.
func TestRotationIsTold(t *testing.T) {
	now := rotation.Begin(pki.Rotated(), func(string) int { return 1 })
	for hold, want := range map[bool]string{
		false: "then everything uses the next keys; then nothing trusts the former keys",
		true:  "then everything uses the next keys; it stays there until naupegos certs rotate --finish",
	} {
		if got := strings.Join(staged.RotationAfter(now, hold), "; "); !strings.HasPrefix(got, want) || !strings.Contains(got, "old kubeconfigs stop working") {
			t.Errorf("it tells %s", got)
		}
	}
	l := rotatable(t)
	testkit.Value(l.Rotate(t.Context(), pki.Rotated(), false))(t)
	testkit.Must(t, l.AdvanceRotation(t.Context()))
	a := l.applying(l.observed(nil, controlPlanes(3)...), nil)
	testkit.Must(t, a.planRotation())
	for _, s := range testkit.Value(a.graph.Seal(stage.ApplyRules))(t) {
		if s.ID == "rotation" && (s.Announces != plan.Rolling || s.Timeout == 0) {
			t.Errorf("the step is %+v", s)
		}
	}
}

// TestPodsThatMayNotReload: the result lists pods that are older and use a token or an authority, with the reason to restart them.
func TestPodsThatMayNotReload(t *testing.T) {
	since := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	pod := func(namespace, name string, mounted bool, age time.Duration) kube.RunningPod {
		return kube.RunningPod{Namespace: namespace, Name: name, Mounted: mounted, Started: since.Add(-age)}
	}
	pods := []kube.RunningPod{
		pod("shop", "old", true, time.Hour), pod("shop", "new", true, -time.Hour), pod("shop", "without", false, time.Hour), pod("kube-system", "coredns", true, time.Hour),
	}
	for keys, want := range map[string][]string{
		pki.ServiceAccountKeyName: {"1 pod with a token run since before, and need a restart if they read it but once, at their start: shop/old"},
		pki.KubernetesCA: {"2 pods run since before the next authority was used, and need a restart before 2027-02-24 if they read ca.crt but once, at their start: " +
			"kube-system/coredns, shop/old"},
		pki.SSHKeyName: nil,
	} {
		now := testkit.Value(rotation.Parse("use " + keys + ":1"))(t)
		if got := staged.OlderNotes(pods, now, since); !slices.Equal(got, want) {
			t.Errorf("%s: %q", keys, got)
		}
	}
	if got := staged.OlderNotes(pods[1:3], testkit.Value(rotation.Parse("use "+pki.KubernetesCA+":1"))(t), since); got != nil {
		t.Errorf("no pod is old, and yet %q", got)
	}
}
