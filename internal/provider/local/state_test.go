package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

func newProvider(t *testing.T, change func(*Options)) *Provider {
	t.Helper()
	root := t.TempDir()
	opts := Options{ClusterID: "unit-1a2b3c4d", Root: root, ImageRoot: filepath.Join(root, "images"), Cache: root, SSHPublicKeys: []string{testKey}}
	if change != nil {
		change(&opts)
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fabricate writes a machine's record, and a run record if a process is given.
func fabricate(t *testing.T, p *Provider, r record, run *process.ID) {
	t.Helper()
	dir := p.n.machine(r.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := files.WriteJSON(recordFile(dir), r); err != nil {
		t.Fatal(err)
	}
	if run != nil {
		if err := files.WriteJSON(runFile(dir), run); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStates(t *testing.T) {
	p := newProvider(t, nil)
	me, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	reused, otherBoot := me, me
	reused.Start--
	otherBoot.Boot = "another"
	whole := func(name string) record {
		return record{Cluster: "unit-1a2b3c4d", Name: name, Role: provider.Worker, Address: "10.77.9.101/24", Link: "nau1a2b3c4d0065", Bridge: "nau1a2b3c4d", HostKey: "k", Created: true}
	}
	fabricate(t, p, whole("stopped"), nil)
	fabricate(t, p, whole("after-reboot"), &otherBoot)
	fabricate(t, p, whole("number-reused"), &reused)
	fabricate(t, p, whole("off-the-bridge"), &me)
	fabricate(t, p, whole("empty-run-file"), nil)
	if err := os.WriteFile(runFile(p.n.machine("empty-run-file")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	half := whole("half")
	half.Created = false
	fabricate(t, p, half, nil)
	if err := os.MkdirAll(p.n.machine("bare"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(p.n.machine("damaged"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordFile(p.n.machine("damaged")), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]provider.State{
		"stopped": provider.Stopped, "after-reboot": provider.Stopped, "number-reused": provider.Stopped,
		"empty-run-file": provider.Stopped, "off-the-bridge": provider.Failed, "half": provider.Partial, "bare": provider.Partial, "damaged": provider.Failed,
	}
	if len(inv.Machines) != len(want) {
		t.Errorf("%d machines, want %d", len(inv.Machines), len(want))
	}
	for _, m := range inv.Machines {
		if m.State != want[m.Name] {
			t.Errorf("%s: %s (%s), want %s", m.Name, m.State, m.Detail, want[m.Name])
		}
	}
}

func TestStepsForEachState(t *testing.T) {
	p := newProvider(t, func(o *Options) { o.CIDR = "10.79.0.0/24" })
	seen := &provider.Inventory{Machines: []provider.Machine{
		{Name: "w-1", State: provider.Running}, {Name: "w-2", State: provider.Stopped}, {Name: "w-3", State: provider.Partial},
		{Name: "w-4", State: provider.Failed, Detail: "why"},
	}}
	want := provider.Wanted{}
	for _, n := range []string{"w-1", "w-2", "w-3", "w-4", "w-5"} {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: n, Role: provider.Worker})
	}
	steps := planned(t, p, want, seen)
	if len(steps) == 0 {
		return
	}
	got := map[string]plan.Action{}
	for _, s := range steps {
		got[s.ID] = s.Action
		if strings.HasPrefix(s.ID, "machine/") && !slices.Equal(s.Needs, []string{networkStep, imageStep}) {
			t.Errorf("%s needs %v", s.ID, s.Needs)
		}
		if s.Reason == "" || s.Run == nil {
			t.Errorf("%s has no reason or nothing to run", s.ID)
		}
	}
	for id, action := range map[string]plan.Action{
		networkStep: plan.Create, imageStep: plan.Create, "machine/w-2": plan.Change, "machine/w-3": plan.Create,
		"machine/w-4": plan.Change, "machine/w-5": plan.Create,
	} {
		if got[id] != action {
			t.Errorf("step %s: %q, want %q", id, got[id], action)
		}
	}
	if _, ok := got["machine/w-1"]; ok {
		t.Error("a running machine has a step")
	}
}

// planned returns the plan's steps. Without root or nft, the tests can't inspect the network.
func planned(t *testing.T, p *Provider, want provider.Wanted, seen *provider.Inventory) []*plan.Step {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("looking at nftables needs root")
	}
	steps, err := p.Steps(t.Context(), want, seen)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func TestAddressesArePlannedAndKept(t *testing.T) {
	p := newProvider(t, func(o *Options) { o.CIDR = "10.79.0.0/24" })
	fabricate(t, p, record{Name: "w-1", Role: provider.Worker, Address: "10.79.0.102/24", Created: true}, nil)
	want := provider.Wanted{Machines: []provider.MachineSpec{
		{Name: "w-1", Role: provider.Worker}, {Name: "w-2", Role: provider.Worker}, {Name: "w-3", Role: provider.Worker}, {Name: "gw", Role: provider.Gateway},
	}}
	subnet, err := p.planSubnet()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // planning again changes nothing
		if err := p.planAddresses(want, subnet); err != nil {
			t.Fatal(err)
		}
		for name, ip := range map[string]string{"w-1": "10.79.0.102", "w-2": "10.79.0.101", "w-3": "10.79.0.103", "gw": "10.79.0.11"} {
			if m, err := p.Machine(t.Context(), name); err != nil || m.Address != ip {
				t.Errorf("%s: %s, want %s (%v)", name, m.Address, ip, err)
			}
		}
	}
	if vip, err := p.VIP(t.Context()); err != nil || vip != "10.79.0.10" {
		t.Errorf("VIP %s %v", vip, err)
	}
	if _, err := p.Machine(t.Context(), "nobody"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("unknown machine: %v", err)
	}
}

func TestDamagedRecordIsNotWiped(t *testing.T) {
	p := newProvider(t, func(o *Options) { o.CIDR = "10.79.0.0/24" })
	dir := p.n.machine("w-1")
	if err := os.MkdirAll(upperDir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.planned["w-1"] = record{Name: "w-1"}
	err := p.ensureMachine(t.Context(), provider.MachineSpec{Name: "w-1"}, silent{})
	if fail.KindOf(err) != fail.Refused {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(upperDir(dir)); err != nil {
		t.Error(err)
	}
}

func TestPowerOfUnknownMachine(t *testing.T) {
	p := newProvider(t, nil)
	if err := p.Power(context.Background(), "nobody", "on"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("%v", err)
	}
}
