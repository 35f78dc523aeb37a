package hosts

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// memory remembers hosts like the store.
type memory struct {
	known []provider.Machine
	err   error
}

func (m *memory) Known() []provider.Machine { return m.known }

func (m *memory) Forget(_ context.Context, name string) error {
	m.known = slices.DeleteFunc(m.known, func(k provider.Machine) bool { return k.Name == name })
	return m.err
}

// lan is a network of hosts, which answer unless they are off.
type lan struct {
	mu     sync.Mutex
	off    map[string]string // by address: why it does not answer
	closed map[string]bool   // by address: it refuses logins
	asked  []remote.Host
	once   string // address of a host whose SSH server restarts: it refuses one connection
}

func (n *lan) Run(ctx context.Context, h remote.Host, _ io.Reader, argv ...string) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, h)
	switch {
	case ctx.Err() != nil:
		return nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "connect").At(h.Name)
	case n.once == h.Address:
		n.once = ""
		return nil, fail.New(fail.Unreachable, "connect: connection refused").At(h.Name)
	case n.off[h.Address] != "":
		return nil, fail.New(fail.Unreachable, "connect: %s", n.off[h.Address]).At(h.Name)
	case n.closed[h.Address]:
		return nil, fail.New(fail.Unauthorized, "log in as %s", h.User).At(h.Name)
	case slices.Equal(argv, []string{"systemctl", "poweroff"}):
		n.off[h.Address] = "no route to host"
		return nil, fail.New(fail.Unreachable, "the connection was lost while a command ran").At(h.Name)
	}
	return nil, nil
}

// hasty is a provider that retries a host at once.
func hasty(doc *v1alpha1.Cluster, run Runner, m Memory) *Provider {
	p := New(doc, run, m)
	p.reach.Patience = time.Millisecond
	return p
}

func newLAN() *lan { return &lan{off: map[string]string{}, closed: map[string]bool{}} }

// named is an endpoint that needs nothing from the provider.
const named = "  endpoint: {kind: address, address: k8s.example.org}\n"

// document names a control-plane machine and a worker at documentation addresses.
func document(t testing.TB, spec string) *v1alpha1.Cluster {
	t.Helper()
	text := `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider:
    hosts:
      user: debian
      port: 2222
      sshKeyFile: /root/key
      trustOnFirstUse: true
      machines:
        - {address: 192.0.2.21, role: control-plane, name: one, hostKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv}
        - {address: 192.0.2.31, role: worker}
` + spec
	return testkit.Value(validation.Parse("test", []byte(text)))(t)
}

func names(ms []provider.Machine) (all []string) {
	for _, m := range ms {
		all = append(all, m.Name)
	}
	return all
}

func TestObserve(t *testing.T) {
	before := provider.Machine{Name: "demo-old", Role: provider.ControlPlane, Index: 2, Address: "192.0.2.99", State: provider.Running, User: "root", Port: 22}
	doc := document(t, named)
	p := New(doc, newLAN(), &memory{known: []provider.Machine{{Name: doc.Machines()[0].Name}, before}})
	inv := testkit.Value(p.Observe(t.Context()))(t)
	if len(inv.Machines) != 3 {
		t.Fatalf("%d machines, want the document's two and the one that it no longer names: %v", len(inv.Machines), names(inv.Machines))
	}
	one := doc.Machines()[0]
	want := provider.Machine{Name: one.Name, Role: provider.ControlPlane, Index: one.Index, Address: "192.0.2.21", State: provider.Running,
		User: "debian", Port: 2222, HostKeys: []string{one.Host.HostKey}}
	if d := cmp.Diff(want, inv.Machines[0]); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if w := inv.Machines[2]; w.Role != provider.Worker || w.Address != "192.0.2.31" || w.HostKeys != nil {
		t.Errorf("the worker is %+v", w)
	}
	if d := cmp.Diff(before, inv.Machines[1]); d != "" {
		t.Errorf("the former host (-want +got)\n%s", d)
	}
	for _, m := range inv.Machines {
		got, err := p.Machine(t.Context(), m.Name)
		if d := cmp.Diff(m, got); d != "" || err != nil {
			t.Errorf("%s alone: %v\n%s", m.Name, err, d)
		}
	}
	if _, err := p.Machine(t.Context(), "elsewhere"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("an unknown host: %v", err)
	}
	if _, err := p.VIP(t.Context()); fail.KindOf(err) != fail.NotFound {
		t.Errorf("the VIP of a document without one: %v", err)
	}
}

func TestVIP(t *testing.T) {
	doc := document(t, "        - {address: 192.0.2.11, role: gateway}\n  endpoint: {kind: gateways, vip: 192.0.2.10, gateways: {replicas: 1}}\n")
	p := New(doc, newLAN(), &memory{})
	inv := testkit.Value(p.Observe(t.Context()))(t)
	if vip, err := p.VIP(t.Context()); err != nil || vip != "192.0.2.10" || inv.VIP != vip {
		t.Errorf("the VIP is %q and %q, %v", vip, inv.VIP, err)
	}
}

// TestNothingIsMadeOrRemoved: hosts have an owner. Naupegos forgets a released host and leaves it unchanged.
func TestNothingIsMadeOrRemoved(t *testing.T) {
	m := &memory{known: []provider.Machine{{Name: "demo-old", Address: "192.0.2.99"}, {Name: "kept"}}}
	p := New(document(t, named), newLAN(), m)
	inv := testkit.Value(p.Observe(t.Context()))(t)
	steps, err := p.Steps(t.Context(), provider.Wanted{Machines: []provider.MachineSpec{{Name: "new"}}}, inv)
	if err != nil || len(steps) > 0 || len(p.Destroy(t.Context(), inv)) > 0 || !p.Traits().Keeps {
		t.Errorf("steps %v, %v; to destroy it: %v", steps, err, p.Destroy(t.Context(), inv))
	}
	testkit.Must(t, p.Preflight(t.Context(), provider.Wanted{}))
	s := p.DestroyMachine(m.known[0])
	if s.ID != provider.DestroyStep("demo-old") || s.Action != plan.Destroy || !strings.Contains(s.Title, "192.0.2.99") {
		t.Errorf("the step is %+v", s)
	}
	testkit.Must(t, s.Run(t.Context(), nil))
	testkit.Must(t, s.Run(t.Context(), nil)) // again, after a crash
	if got := names(m.known); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("remembered are %v", got)
	}
	m.err = errors.New("the disk is full")
	if err := s.Run(t.Context(), nil); !errors.Is(err, m.err) {
		t.Errorf("can't forget: %v", err)
	}
}

// TestWhoAnswers: a host that does not answer is reported with the reason; one that refuses logins counts as running.
func TestWhoAnswers(t *testing.T) {
	doc, net := document(t, "        - {address: 192.0.2.11, role: gateway}\n  endpoint: {kind: gateways, vip: 192.0.2.10, gateways: {replicas: 1}}\n"), newLAN()
	net.off["192.0.2.31"], net.closed["192.0.2.21"] = "no route to host", true
	before := provider.Machine{Name: "demo-old", Address: "192.0.2.99", State: provider.Unreachable, Detail: "long ago"}
	p := hasty(doc, net, &memory{known: []provider.Machine{before}})
	seen := func() map[string]string {
		out := map[string]string{}
		for _, m := range testkit.Value(p.Observe(t.Context()))(t).Machines {
			out[m.Address] = strings.TrimSpace(string(m.State) + " " + m.Detail)
			if one := testkit.Value(p.Machine(t.Context(), m.Name))(t); !cmp.Equal(m, one) {
				t.Errorf("alone it is something else:\n%s", cmp.Diff(m, one))
			}
		}
		return out
	}
	want := map[string]string{
		"192.0.2.11": "running", "192.0.2.21": "running one: log in as debian", "192.0.2.31": "unreachable demo-general-1: connect: no route to host", "192.0.2.99": "running",
	}
	if d := cmp.Diff(want, seen()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	for _, h := range net.asked {
		if gateway := h.Address == "192.0.2.11"; gateway != (len(h.Via) == 0) || !gateway && h.Via[0].Address != "192.0.2.11" {
			t.Errorf("%s is reached through %v", h.Name, h.Via)
		}
	}
	delete(net.off, "192.0.2.31")
	want["192.0.2.31"] = "running"
	if d := cmp.Diff(want, seen()); d != "" {
		t.Errorf("it is back (-want +got)\n%s", d)
	}
	net.once = "192.0.2.31"
	if d := cmp.Diff(want, seen()); d != "" {
		t.Errorf("its SSH server restarts (-want +got)\n%s", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Observe(ctx); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("cancelled: %v", err)
	}
}

// TestDeadHostIsLetGo: the plan says that nothing is cleaned on the host.
func TestDeadHostIsLetGo(t *testing.T) {
	p := New(document(t, named), newLAN(), &memory{})
	if s := p.DestroyMachine(provider.Machine{Name: "demo-old", State: provider.Unreachable}); !strings.Contains(strings.Join(s.Details, " "), "does not answer") {
		t.Errorf("the step says %v", s.Details)
	}
	if s := p.DestroyMachine(provider.Machine{Name: "demo-old", State: provider.Running}); len(s.Details) > 0 {
		t.Errorf("the step of one that answers says %v", s.Details)
	}
}

// TestPower shuts a host down over SSH with the test's own systemctl, which also stops the server.
func TestPower(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.NewServer(t, key.PublicKey())
	var mu sync.Mutex
	var ran []string
	server.Command = func(c string) string {
		mu.Lock()
		defer mu.Unlock()
		if ran = append(ran, c); strings.HasSuffix(c, "poweroff") {
			_ = server.Close() // and then, because init ends sshd:
			go server.Cut()
		}
		return "echo naupegos:began"
	}
	d := remote.NewDialer([]remote.Key{key}, remote.Options{})
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	doc := document(t, named)
	h := doc.Spec.Provider.Hosts
	h.Port, h.Machines[0].Address, h.Machines[0].HostKey = server.Port(), "127.0.0.1", sshtest.AuthorizedKey(server.HostKey.PublicKey())
	p, name := New(doc, d, &memory{}), doc.Machines()[0].Name
	for state, kind := range map[string]fail.Kind{"on": fail.Refused, "kill": fail.Refused, "sideways": fail.Invalid} {
		if err := p.Power(t.Context(), name, state); fail.KindOf(err) != kind || !strings.Contains(err.Error(), name) {
			t.Errorf("power %s: %v", state, err)
		}
	}
	if err := p.Power(t.Context(), "elsewhere", "off"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("an unknown host: %v", err)
	}
	if server.Logins.Load() != 0 {
		t.Error("a host was asked in vain")
	}
	testkit.Must(t, p.Power(t.Context(), name, "off"))
	mu.Lock()
	told := slices.Clone(ran)
	mu.Unlock()
	if len(told) != 2 || !strings.HasSuffix(told[0], " true") || !strings.HasSuffix(told[1], " systemctl poweroff") || !strings.Contains(told[0], "sudo -n -- ") {
		t.Errorf("the host got %q", told)
	}
	if m := testkit.Value(p.Machine(t.Context(), name))(t); m.State != provider.Unreachable {
		t.Errorf("it was shut down, and is %s", m.State)
	}
	if err := p.Power(t.Context(), name, "off"); fail.KindOf(err) != fail.Unreachable || fail.Waitable(err) || !strings.Contains(err.Error(), "this can't be told from here") {
		t.Errorf("shut down again: %v", err)
	}
}
