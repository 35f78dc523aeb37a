package metal

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// told hears what a step says.
type told func(text string)

func (f told) Status(format string, a ...any) { f(fmt.Sprintf(format, a...)) }

// installing has a machine be in the midst of its installation as demo-cp-1, and not have been heard of for ten minutes.
func (k *rack) installing(p *Provider) (*unit, provider.MachineSpec) {
	ctx := k.Context()
	spec := wanted(p.o.Document).Machines[0]
	testkit.Value(p.claim(ctx, p.seats([]provider.MachineSpec{spec}), false))(k)
	m := testkit.Value(p.holder(ctx, spec.Name))(k)
	testkit.Value(k.reg.SetOrder(ctx, m.UUID, testkit.Value(p.order(ctx, m, spec))(k), "ann"))(k)
	u := k.units[m.UUID]
	u.on, k.deaf = true, true
	testkit.Must(k, k.discover(u))
	if a := testkit.Value(k.reg.Authorize(ctx, testkit.Value(k.reg.Machine(ctx, m.UUID))(k)))(k); !a.Granted {
		k.Fatal(a.Why)
	}
	testkit.Value(k.st.Metal().Change(ctx, m.UUID, metal.How{}, func(d *metal.Draft) error {
		d.Seen = d.Seen.Add(-10 * time.Minute)
		return nil
	}))(k)
	return u, spec
}

// TestServerWasAway: a machine whose reports were lost because no server ran is not switched off in the midst of its installation: it is
// given its time, and says how far it is.
func TestServerWasAway(t *testing.T) {
	k, doc := newRack(t, 1), document(t, plain)
	p := k.provider(doc)
	p.o.Silence = 5 * time.Minute
	u, spec := k.installing(p)
	boots := u.boots
	goesOn := told(func(text string) {
		if !strings.Contains(text, "has not reported since") {
			return
		}
		m := testkit.Value(k.reg.Machine(t.Context(), uuidOf(u.n)))(t)
		testkit.Value(k.reg.Renew(t.Context(), m, registry.Progress{Stage: "write root", Done: 1, Total: 2}))(t)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.deaf = false
		testkit.Must(t, k.asks(u))
	})
	testkit.Must(t, p.bring(t.Context(), spec, goesOn))
	if u.boots != boots {
		t.Errorf("it was switched off while it was installed, and has booted %d times more", u.boots-boots)
	}
}

// TestSilent: one that is on, and is not heard of in its time, is switched off and on.
func TestSilent(t *testing.T) {
	k, doc := newRack(t, 1), document(t, plain)
	p := k.provider(doc)
	p.o.Silence = 20 * time.Millisecond
	u, spec := k.installing(p)
	boots := u.boots
	began := time.Now()
	testkit.Must(t, p.bring(t.Context(), spec, told(func(text string) {
		if strings.Contains(text, "boot from the network") {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.deaf = false
		}
	})))
	if u.boots != boots+1 || time.Since(began) < p.o.Silence {
		t.Errorf("booted %d times more, after %s", u.boots-boots, time.Since(began))
	}
}

// enrol has a machine say what it is, signed by a key.
func (k *rack) enrol(n int, key *ecdsa.PrivateKey) *registry.Discovery {
	mac := fmt.Sprintf("52:54:00:00:00:%02x", n)
	d := facts.Discovery{
		Boot:       facts.BootInfo{UUID: uuidOf(n), MAC: mac, RandomID: "boot-of-" + facts.Fingerprint(key.Public())[:8]},
		Interfaces: []facts.Interface{{Name: "eth0", MAC: mac, IPv4: addressOf(n), CIDRv4: addressOf(n) + "/16"}},
		Disks:      []facts.Disk{{Path: "/dev/sda", SizeBytes: 480 << 30}},
		Enrolment:  &facts.Enrolment{Request: testkit.Value(facts.NewRequest(key, uuidOf(n)))(k), Sequence: time.Now().UnixNano()},
	}
	raw := testkit.Value(json.Marshal(d))(k)
	return testkit.Value(k.reg.Discover(k.Context(), raw, testkit.Value(facts.Sign(key, raw))(k)))(k)
}

// TestPowerLostInMidInstallation: the machine comes back with another key. It is given nothing, and not switched off; the step says what an operator has
// to do, and goes on once that is done.
func TestPowerLostInMidInstallation(t *testing.T) {
	k, doc := newRack(t, 1), document(t, plain)
	own, next := testkit.Value(facts.NewKey())(t), testkit.Value(facts.NewKey())(t)
	k.enrol(1, own)
	testkit.Value(k.reg.Approve(t.Context(), uuidOf(1), facts.Fingerprint(own.Public()), "ann"))(t)
	p := k.provider(doc)
	u, spec := k.installing(p)
	testkit.Value(k.reg.Renew(t.Context(), testkit.Value(k.reg.Machine(t.Context(), uuidOf(1)))(t), registry.Progress{Stage: "write root", Done: 1, Total: 2}))(t)
	if d := k.enrol(1, next); d.Proven || d.Certificate != "" {
		t.Errorf("another key was believed: %+v", d)
	}
	boots, asked := u.boots, false
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	testkit.Must(t, p.bring(ctx, spec, told(func(text string) {
		_, key, found := strings.Cut(text, "machine approve "+uuidOf(1)+" --key ")
		if !found || asked {
			return
		}
		asked = true
		testkit.Fails(t, k.reg.Knows(testkit.Value(k.reg.Machine(ctx, uuidOf(1)))(t), next.Public()), fail.Unauthorized)
		testkit.Value(k.reg.Approve(ctx, uuidOf(1), key, "ann"))(t)
		if d := k.enrol(1, next); !d.Proven {
			t.Errorf("%s is not the key that the machine asks with", key)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.deaf = false
		testkit.Must(t, k.asks(u))
	})))
	if !asked || u.boots != boots {
		t.Errorf("asked to approve it: %t, booted %d times more", asked, u.boots-boots)
	}
}

// TestDiskRuleChanges: machines in use stay on their disk, whatever the document says later, also where they take another system; the plan says of
// which field that is true, and what to do. What is installed then is installed by the rule of then.
func TestDiskRuleChanges(t *testing.T) {
	k, doc := newRack(t, 4), document(t, strings.Replace(plain, "replicas: 1}", "replicas: 2}", 1))
	ctx := t.Context()
	doc.Spec.ControlPlane.Replicas = 1
	p := k.provider(doc)
	testkit.Must(t, k.apply(p, doc))
	kept := func() string {
		t.Helper()
		return strings.Join(testkit.Value(p.Kept(ctx, testkit.Value(p.Observe(ctx))(t)))(t), "\n")
	}
	if got := kept(); got != "" {
		t.Errorf("nothing has changed: %s", got)
	}
	doc.Spec.Provider.Metal.Pools = []v1alpha1.MetalPool{{Name: "general", Strategy: "reboot", Disk: v1alpha1.MetalDisk{MinGiB: 100, Data: []string{"DISK3"}}}}
	want := "spec.provider.metal.pools[0].disk.minGiB was 20, and is 100 now: demo-general-1, demo-general-2 stay on the disks that they were installed on; " +
		"naupegos node replace demo demo-general-1 has the place filled by the rule of now"
	if got := kept(); got != want {
		t.Error(got)
	}
	k.newest = "b"
	testkit.Must(t, p.Renew(ctx, "demo-general-1", mute{}))
	if got := kept(); got != want {
		t.Errorf("after another system: %s", got)
	}
	testkit.Must(t, p.DestroyMachine(testkit.Value(p.Machine(ctx, "demo-general-1"))(t)).Run(ctx, mute{}))
	testkit.Must(t, k.apply(p, doc))
	if got := kept(); got != strings.NewReplacer("demo-general-1, demo-general-2 stay on the disks that they were", "demo-general-2 stays on the disk that it was", "demo-general-1", "demo-general-2").Replace(want) {
		t.Errorf("after one was replaced: %s", got)
	}
}
