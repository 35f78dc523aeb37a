package providertest

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// traitsHold asserts that traits and optional interfaces are consistent; other parts check the traits of the machines.
func (l *life) traitsHold() {
	p := l.Provider(l)
	if again := p.Traits(); again != l.traits {
		l.Errorf("traits change: %+v, %+v", l.traits, again)
	}
	if _, is := p.(provider.CloudIntegration); is != l.traits.ExternalCloud {
		l.Errorf("nodes wait for a cloud's controller: %t; the provider is a CloudIntegration: %t", l.traits.ExternalCloud, is)
	}
	if _, is := p.(provider.Fronted); is && !l.traits.Outside {
		l.Error("the virtual address has another one outside, though nothing has")
	}
	if l.traits.Keeps && !l.traits.Given {
		l.Error("machines outlive the cluster, but their source is unknown")
	}
	h, ok := p.(provider.Housed)
	if !ok {
		return
	}
	home := testkit.Value(h.Home(l.Context()))(l)
	if again := testkit.Value(l.Provider(l).(provider.Housed).Home(l.Context()))(l); home == "" || again != home {
		l.Errorf("the home is %q, and %q to another provider of the same cluster", home, again)
	}
}

// preflight asserts that a satisfiable state is accepted, an unsatisfiable one is refused, and that Preflight changes nothing.
func (l *life) preflight() {
	before := l.Things(l)
	p, _ := l.observe()
	testkit.Must(l, p.Preflight(l.Context(), l.Want))
	if w, ok := p.(provider.Warner); ok {
		for _, text := range w.Warnings() {
			if text == "" {
				l.Error("a warning says nothing")
			}
		}
	}
	if l.Refused != nil {
		bad, want := l.Refused(l)
		testkit.Value(bad.Observe(l.Context()))(l)
		for range 2 {
			if err := bad.Preflight(l.Context(), want); fail.KindOf(err) != fail.Refused {
				l.Errorf("preflight of an impossible machine: %v", err)
			}
		}
	}
	if d := cmp.Diff(before, l.Things(l)); d != "" {
		l.Errorf("preflight changes something (-before +after):\n%s", d)
	}
}

// cancelledReads asserts that calls with a cancelled context return soon.
func (l *life) cancelledReads() {
	p, inv := l.observe()
	ctx, cancel := context.WithCancel(l.Context())
	cancel()
	l.stops(ctx, "Observe", func() error { _, err := l.Provider(l).Observe(ctx); return err })
	l.stops(ctx, "Preflight", func() error { return p.Preflight(ctx, l.Want) })
	l.stops(ctx, "Steps", func() error { _, err := p.Steps(ctx, l.Want, inv); return err })
	l.stops(ctx, "Machine", func() error { _, err := l.Provider(l).Machine(ctx, l.last().Name); return err })
}

// stops asserts that a call ends soon after its context was cancelled, with fail.Interrupted unless it had nothing to wait for. It reports
// whether the call completed.
func (l *life) stops(ctx context.Context, what string, call func() error) (done bool) {
	l.Helper()
	var cancelled atomic.Pointer[time.Time]
	context.AfterFunc(ctx, func() { now := time.Now(); cancelled.Store(&now) })
	err := call()
	if at := cancelled.Load(); at != nil && time.Since(*at) > soon {
		took := time.Since(*at)
		l.Errorf("%s, cancelled, ends only after %v", what, took.Round(time.Second))
	}
	if err != nil && fail.KindOf(err) != fail.Interrupted {
		l.Errorf("%s, cancelled, fails as %s: %v", what, fail.KindOf(err), err)
	}
	return err == nil
}

// inventory asserts that Observe finds everything as wanted, and running.
func (l *life) inventory() {
	before := l.Things(l)
	p, inv := l.observe()
	if len(inv.Machines) != len(l.Want.Machines) {
		l.Errorf("%d machines are seen, %d wanted", len(inv.Machines), len(l.Want.Machines))
	}
	sorted := slices.Clone(inv.Machines)
	provider.Sort(sorted)
	if d := cmp.Diff(sorted, inv.Machines); d != "" {
		l.Errorf("machines are not sorted (-sorted +seen):\n%s", d)
	}
	addresses := map[string]bool{}
	for _, spec := range l.Want.Machines {
		m := l.machine(spec.Name)
		l.fits(spec, m)
		if addresses[m.Address] {
			l.Errorf("%s has the address %s of another one", m.Name, m.Address)
		}
		addresses[m.Address] = true
		if one := testkit.Value(p.Machine(l.Context(), spec.Name))(l); !cmp.Equal(m, one) {
			l.Errorf("Machine and Observe differ (-Observe +Machine):\n%s", cmp.Diff(m, one))
		}
		if l.Login != nil {
			l.Login(l, m)
		}
	}
	l.virtual(p, inv, addresses)
	if _, err := p.Machine(l.Context(), "nobody-1"); fail.KindOf(err) != fail.NotFound {
		l.Errorf("an unknown machine: %v", err)
	}
	if d, ok := p.(provider.Drifter); ok && len(d.Drift(l.Want, inv)) > 0 {
		l.Errorf("new machines differ from the wanted ones: %v", d.Drift(l.Want, inv))
	}
	if _, again := l.observe(); !cmp.Equal(inv, again) {
		l.Errorf("looked at again, it is something else (-before +after):\n%s", cmp.Diff(inv, again))
	}
	if d := cmp.Diff(before, l.Things(l)); d != "" {
		l.Errorf("looking changes something (-before +after):\n%s", d)
	}
	l.nothingToDo()
}

// fits asserts that a machine is the wanted one and can be used.
func (l *life) fits(want provider.MachineSpec, m provider.Machine) {
	l.Helper()
	if got := (provider.MachineSpec{Name: m.Name, Role: m.Role, Pool: m.Pool, Index: m.Index, UserData: want.UserData}); !cmp.Equal(want, got) {
		l.Errorf("%s differs from the wanted machine (-want +seen):\n%s", m.Name, cmp.Diff(want, got))
	}
	if m.State != provider.Running {
		l.Errorf("%s is %s: %s", m.Name, m.State, m.Detail)
	}
	if _, err := netip.ParseAddr(m.Address); err != nil {
		l.Errorf("%s: %v", m.Name, err)
	}
	if m.Public != "" && !l.traits.Outside {
		l.Errorf("%s has an address %s outside, though none has", m.Name, m.Public)
	}
	if m.User == "" || m.Port < 1 || m.Port > 65535 {
		l.Errorf("%s: login is impossible as %q at port %d", m.Name, m.User, m.Port)
	}
	for _, k := range m.HostKeys {
		if !hostKey.MatchString(k) {
			l.Errorf("%s: %q is no host key as in authorized_keys", m.Name, k)
		}
	}
	if l.Login != nil && len(m.HostKeys) == 0 {
		l.Errorf("%s has no host key", m.Name)
	}
}

// virtual asserts that the virtual address is valid and not otherwise in use.
func (l *life) virtual(p provider.Provider, inv *provider.Inventory, taken map[string]bool) {
	l.Helper()
	vip, err := p.VIP(l.Context())
	switch {
	case err != nil && fail.KindOf(err) != fail.NotFound:
		l.Error(err)
	case vip != inv.VIP:
		l.Errorf("the virtual address is %q, and %q in the inventory", vip, inv.VIP)
	case vip == "" && l.Want.VIP:
		l.Error("there is no virtual address")
	case taken[vip]:
		l.Errorf("the virtual address %s is a machine's", vip)
	}
	if f, ok := p.(provider.Fronted); ok {
		if public, err := f.PublicVIP(l.Context()); err == nil && (public == "" || public == vip) || err != nil && fail.KindOf(err) != fail.NotFound {
			l.Errorf("outside, the virtual address %s is %q, %v", vip, public, err)
		}
	}
}
