package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnfitMachines: an unsuitable machine is refused before anything is changed on it.
func TestUnfitMachines(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	for _, c := range []struct {
		facts machine.Facts
		kind  fail.Kind
		says  string
	}{
		{machine.Facts{Hostname: "demo-cp-1", OS: "debian 12", Dpkg: true}, fail.Refused, "not systemd"},
		{machine.Facts{Hostname: "demo-cp-1", OS: "fedora 44", Systemd: true}, fail.Refused, "operating system (fedora 44) has no Debian packages"},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, Fresh: true, Volumes: []machine.Volume{{Directory: "/var/lib", Free: 2 << 30}}}, fail.Refused, "2048 MiB are free below /var/lib, 3072 MiB are needed"},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, Fresh: true, Volumes: []machine.Volume{{Directory: "/var/lib", Free: 4 << 30}}, Clock: time.Now().Add(-time.Hour)}, fail.Refused, "differs from this host's by"},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, Fresh: true, Volumes: []machine.Volume{{Directory: "/var/lib", Free: 4 << 30}}, Clock: time.Now().Add(-time.Minute)}, fail.Internal, ""},
		{machine.Facts{Hostname: "demo-cp-1", Systemd: true, Dpkg: true, Volumes: []machine.Volume{{Directory: "/var/lib", Free: 1}}}, fail.Internal, ""}, // it serves: its content is ours
		{machine.Facts{Hostname: "other", OS: "debian 12", Systemd: true, Dpkg: true}, fail.Conflict, `its hostname is "other"`},
	} {
		err := l.CheckFacts(wanted.Slot{Name: "demo-cp-1", Role: provider.ControlPlane}, c.facts)
		if c.says == "" && err == nil {
			continue
		}
		if fail.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v (%s), want %q", err, fail.KindOf(err), c.says)
		}
	}
}

// hostsGiven is a cloud whose machines are given in the document.
type hostsGiven struct{ *cloud }

func (hostsGiven) Traits() provider.Traits { return provider.Traits{Given: true, Keeps: true} }

// TestNamesOfGivenMachines: a host may have any name that Kubernetes accepts for a node. Names of machines that a provider makes are hostnames.
func TestNamesOfGivenMachines(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	slots := []wanted.Slot{{Name: "ip-10-0-0-11.eu-west-3.compute.internal", Role: provider.ControlPlane}, {Name: "node.example.org", Role: provider.Worker}}
	if _, err := l.WantedMachines(slots); fail.KindOf(err) != fail.Invalid {
		t.Errorf("a machine to make: %v", err)
	}
	l.Prov = hostsGiven{l.cloud}
	for _, m := range testkit.Value(l.WantedMachines(slots))(t).Machines {
		if len(m.UserData) > 0 {
			t.Errorf("the host %s, which runs already, gets user-data:\n%s", m.Name, m.UserData)
		}
	}
}

// TestNeverReached: a host that was never in use and fails at the first contact keeps an apply from beginning; a host that was in use may come back.
func TestNeverReached(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 2))
	l.Prov = hostsGiven{l.cloud}
	testkit.Must(t, l.Facts.SetOf(t.Context(), memory.Host, "demo-a-1", "{}"))
	away := fail.New(fail.Unreachable, "no answer").At("demo-a-2")
	for name, want := range map[string]bool{"demo-a-1": false, "demo-a-2": true} {
		s := wanted.Slot{Name: name, Role: provider.Worker}
		o := &observe.Observed{Want: []wanted.Slot{s}, Machines: map[string]*observe.Seen{name: {Err: l.NeverReached(s, away)}}}
		if all := o.Unready(); (len(all) > 0) != want || want && fail.KindOf(all[0]) != fail.Unreachable || o.Unfit() != nil {
			t.Errorf("%s: %v", name, all)
		}
		if !o.Silent(name) {
			t.Errorf("%s does not count as silent", name)
		}
	}
	for kind, want := range map[fail.Kind]fail.Kind{ // any failure before the agent's first answer
		fail.Unauthorized: fail.Unauthorized, fail.Refused: fail.Refused, fail.NotReady: fail.NotReady, fail.Conflict: fail.Conflict, fail.Internal: fail.Refused,
	} {
		s := wanted.Slot{Name: "demo-a-2", Role: provider.Worker}
		o := &observe.Observed{Want: []wanted.Slot{s}, Machines: map[string]*observe.Seen{s.Name: {Err: l.NeverReached(s, fail.New(kind, "no"))}}}
		if all := o.Unready(); len(all) != 1 || fail.KindOf(all[0]) != want {
			t.Errorf("after %v: %v", kind, all)
		}
	}
	if err := l.NeverReached(wanted.Slot{Name: "demo-a-2"}, context.Canceled); errors.As(err, new(*observe.UnreadyError)) {
		t.Errorf("Ctrl-C counts as the host's fault: %v", err)
	}
	l.Prov = l.cloud
	if err := l.NeverReached(wanted.Slot{Name: "demo-a-2"}, away); !errors.Is(err, away) || errors.As(err, new(*observe.UnreadyError)) {
		t.Errorf("a machine that is ours: %v", err)
	}
}

// slow is a control plane in which one machine has not caught up: each field names the machine that has not reached that stage.
type slow struct{ unstarted, unhealthy, unready, former string }

func (s slow) Settled(_ context.Context, name string) error    { return yet(s.unstarted, name) }
func (s slow) WaitEtcd(context.Context) error                  { return yet(s.unhealthy, s.unhealthy) }
func (s slow) WaitServer(_ context.Context, name string) error { return yet(s.unready, name) }
func (s slow) Runs(_ context.Context, name, version string) error {
	if version != "v1.37.2" {
		return fail.New(fail.Internal, "it was asked for %s", version)
	}
	return yet(s.former, name)
}

// yet is fail.NotReady about one machine.
func yet(who, name string) error {
	if who == "" || who != name {
		return nil
	}
	return fail.New(fail.NotReady, "it has not taken it up").At(name)
}

// TestAdvancesOnceTaken: an apply that finds all machines configured records a hop or a phase as complete, and begins the next, only once the
// servers of every control-plane machine run with the new configuration: the previous apply may have died before they did.
func TestAdvancesOnceTaken(t *testing.T) {
	const old, next, last = "v1.36.4", "v1.37.2", "demo-cp-3"
	upgrading := upgraded(t, old)
	upgrading.Doc = documentOf(t, next)
	for range 2 { // until the servers get the next release
		upgrading.hop()
		upgrading.everythingDone()
		if upgrading.Told().Servers == old {
			upgrading.hopMadeBy(t, allRun{})
		}
	}
	rotating := rotatable(t)
	testkit.Value(rotating.Rotate(t.Context(), pki.Rotated(), false))(t)
	rotating.phase()
	rotating.everythingDone()
	rotating.SetTarget(wantedOf(rotating))
	encrypting := newLab(t, encryptionDocument(t, false)).Running(encryptionDocument(t, false))
	testkit.Must(t, encrypting.AdvanceEncryption(t.Context()))
	encrypting.Doc = encryptionDocument(t, true)
	testkit.Must(t, encrypting.AdvanceEncryption(t.Context()))
	encrypting.SetTarget(wantedOf(encrypting))

	for name, s := range map[string]slow{"kubelet": {unstarted: last}, "etcd": {unhealthy: last}, "API server": {unready: last}, "release": {former: last}} {
		if err := upgrading.hopMadeBy(t, s); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), last) {
			t.Errorf("upgrade, %s: %v", name, err)
		}
		if !upgrading.Moving() {
			t.Fatalf("%s: the hop is noted as made", name)
		}
		if s.former != "" {
			continue // the release stays
		}
		rotating.Plane, encrypting.Plane = s, s
		scan := &staged.RotationScan{Staged: rotating.Staged, Now: testkit.Value(rotating.ToldRotation())(t)}
		testkit.Fails(t, scan.End(t.Context(), silent{}), fail.NotReady, last)
		a := encrypting.applying(encrypting.observed(nil, controlPlanes(1)...), nil)
		a.planEncryption()
		steps := testkit.Value(a.graph.Seal(stage.ApplyRules))(t)
		testkit.Fails(t, steps[0].Run(t.Context(), silent{}), fail.NotReady, last)
		if run := encrypting.Facts.Get(memory.EncryptionRun); run == encrypting.Facts.Get(memory.Encryption) {
			t.Errorf("%s: all API servers are said to run with %s", name, run)
		}
	}
	testkit.Must(t, upgrading.hopMadeBy(t, slow{}))
	if upgrading.Moving() || upgrading.Told() != (hops.Releases{Servers: next, Emulates: "1.36", Machines: old, Ahead: next}) {
		t.Errorf("the hop is not noted as made: %v", upgrading.Told())
	}
}

// hopMadeBy runs the step that records a hop as complete, with the given state of the control plane.
func (l *lab) hopMadeBy(t *testing.T, p observe.Plane) error {
	t.Helper()
	l.Plane = p
	a := l.applying(l.observed(nil, controlPlanes(3)...), nil)
	a.planReleases()
	for _, s := range testkit.Value(a.graph.Seal(stage.ApplyRules))(t) {
		if s.ID == "upgrade" {
			return s.Run(t.Context(), silent{})
		}
	}
	t.Fatal("no hop is under way")
	return nil
}

func wantedOf(l *lab) []wanted.Slot {
	want, _ := wanted.Assign(l.Doc, nil, nil)
	return want
}

// TestSaysRelease: a machine's servers have a release once all of them run and report it.
func TestSaysRelease(t *testing.T) {
	const said = "kube-apiserver Kubernetes v1.37.2\nkube-controller-manager Kubernetes v1.37.2\nkube-scheduler Kubernetes v1.37.2\n"
	testkit.Must(t, observe.OfRelease("demo-cp-1", said, "v1.37.2"))
	for want, out := range map[string]string{
		"kube-scheduler does not run":                                    strings.Replace(said, "kube-scheduler Kubernetes v1.37.2\n", "", 1),
		"kube-scheduler is still \"Kubernetes v1.36.4\", not of v1.37.2": strings.Replace(said, "scheduler Kubernetes v1.37.2", "scheduler Kubernetes v1.36.4", 1),
		"kube-apiserver is still \"Kubernetes v1.36.4\"":                 said + "kube-apiserver Kubernetes v1.36.4\n", // the old process is about to end
		"kube-controller-manager is still \"\", not":                     strings.Replace(said, "manager Kubernetes v1.37.2", "manager ", 1),
	} {
		testkit.Fails(t, observe.OfRelease("demo-cp-1", out, "v1.37.2"), fail.NotReady, "demo-cp-1", want)
	}
}

// TestBehind: apply waits for a control-plane machine whose servers have not started with their new configuration because an earlier apply died.
func TestBehind(t *testing.T) {
	l := upgraded(t, "v1.37.2")
	o := l.observed(nil, controlPlanes(3)...)
	if got := l.mustPlan(o); got != "" {
		t.Fatalf("nothing is to be done, but:\n%s", got)
	}
	o.Machines["demo-cp-3"].Report.Behind = []string{"etcd has not been restarted since etcd.yaml was changed", "kube-scheduler has not"}
	want := "roll-control-plane:\n  wait    health/demo-cp-3  (it was changed but not waited for: etcd has not been restarted since etcd.yaml was changed; kube-scheduler has not)\n"
	if got := l.mustPlan(o); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestGateWaitsForNode: the next control-plane machine changes only once the kubelet that restarted has its node Ready again. Servers may run while their
// kubelet does not start.
func TestGateWaitsForNode(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for unit, waits := range map[string]bool{"kubelet.service": true, "containerd.service": false} {
		l := newLab(t, document(t, 3, 0, 0)).Running(document(t, 3, 0, 0))
		o := l.restarting(l.observed(nil, controlPlanes(3)...))
		for _, seen := range o.Machines {
			seen.Report.Changes[0].Name = unit
		}
		gates := 0
		for _, s := range l.stepsOf(o) {
			if !strings.HasPrefix(s.ID, "health/demo-cp-") {
				continue
			}
			gates++
			if err := s.Run(ended, silent{}); (err != nil) != waits { // the servers run; the API can't be asked any more
				t.Errorf("after a restart of %s, %s ends with %v", unit, s.ID, err)
			}
		}
		if gates != 3 {
			t.Errorf("after a restart of %s there are %d gates", unit, gates)
		}
	}
}

// TestGateLooksAgain: a gate whose API server never answers looks for the reason meanwhile, and does not only wait.
func TestGateLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, document(t, 3, 0, 0)).Running(document(t, 3, 0, 0))
		l.Plane = mute{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		err := l.Gate("demo-cp-9", "a machine without an address, which is not asked").Run(ctx, silent{})
		if fail.KindOf(err) != fail.NotReady || time.Since(began) > time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// mute is a control plane whose API servers never answer.
type mute struct{ allRun }

func (mute) WaitServer(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
