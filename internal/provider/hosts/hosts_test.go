package hosts

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// memory remembers hosts as the store does.
type memory struct {
	known []provider.Machine
	err   error
}

func (m *memory) Known() []provider.Machine { return m.known }

func (m *memory) Forget(_ context.Context, name string) error {
	m.known = slices.DeleteFunc(m.known, func(k provider.Machine) bool { return k.Name == name })
	return m.err
}

// nobody answers.
type nobody struct{ t *testing.T }

func (n nobody) Run(context.Context, remote.Host, io.Reader, ...string) ([]byte, error) {
	n.t.Error("a host was asked")
	return nil, errors.New("no answer")
}

// named is an endpoint that needs nothing of the provider.
const named = "  endpoint: {kind: address, address: k8s.example.org}\n"

// document names a control-plane machine and a worker at addresses of the documentation's.
func document(t *testing.T, spec string) *v1alpha1.Cluster {
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
	return testkit.Value(v1alpha1.Parse("test", []byte(text)))(t)
}

func names(ms []provider.Machine) (all []string) {
	for _, m := range ms {
		all = append(all, m.Name)
	}
	return all
}

func TestObserve(t *testing.T) {
	before := provider.Machine{Name: "demo-old", Role: provider.Worker, Address: "192.0.2.99", State: provider.Running, User: "root", Port: 22}
	doc := document(t, named)
	p := New(doc, nobody{t}, &memory{known: []provider.Machine{{Name: doc.Machines()[0].Name}, before}})
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
	if w := inv.Machines[1]; w.Role != provider.Worker || w.Address != "192.0.2.31" || w.HostKeys != nil {
		t.Errorf("the worker is %+v", w)
	}
	if d := cmp.Diff(before, inv.Machines[2]); d != "" {
		t.Errorf("the former host (-want +got)\n%s", d)
	}
	for _, m := range inv.Machines {
		got, err := p.Machine(t.Context(), m.Name)
		if d := cmp.Diff(m, got); d != "" || err != nil {
			t.Errorf("%s alone: %v\n%s", m.Name, err, d)
		}
	}
	if _, err := p.Machine(t.Context(), "elsewhere"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("a host that nobody named: %v", err)
	}
	if _, err := p.VIP(t.Context()); fail.KindOf(err) != fail.NotFound {
		t.Errorf("the VIP of a document without one: %v", err)
	}
}

func TestVIP(t *testing.T) {
	doc := document(t, "        - {address: 192.0.2.11, role: gateway}\n  endpoint: {kind: gateways, vip: 192.0.2.10, gateways: {replicas: 1}}\n")
	p := New(doc, nobody{t}, &memory{})
	inv := testkit.Value(p.Observe(t.Context()))(t)
	if vip, err := p.VIP(t.Context()); err != nil || vip != "192.0.2.10" || inv.VIP != vip {
		t.Errorf("the VIP is %q and %q, %v", vip, inv.VIP, err)
	}
}

// TestNothingIsMadeOrRemoved: hosts are somebody's. One that is let go is forgotten, and stays as it is.
func TestNothingIsMadeOrRemoved(t *testing.T) {
	m := &memory{known: []provider.Machine{{Name: "demo-old", Address: "192.0.2.99"}, {Name: "kept"}}}
	p := New(document(t, named), nobody{t}, m)
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
		t.Errorf("what can't be forgotten: %v", err)
	}
}

// TestPower switches a host off over SSH, whose systemctl is the test's.
func TestPower(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.NewServer(t, key.PublicKey())
	var ran []string
	server.Command = func(c string) string { ran = append(ran, c); return "true" }
	d := remote.NewDialer([]remote.Key{key}, remote.Options{})
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	doc := document(t, named)
	h := doc.Spec.Provider.Hosts
	h.Port, h.Machines[0].Address, h.Machines[0].HostKey = server.Port(), "127.0.0.1", sshtest.AuthorizedKey(server.HostKey.PublicKey())
	p, name := New(doc, d, &memory{}), doc.Machines()[0].Name
	for _, state := range []string{"on", "kill"} {
		if err := p.Power(t.Context(), name, state); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), name) {
			t.Errorf("power %s: %v", state, err)
		}
	}
	if err := p.Power(t.Context(), "elsewhere", "off"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("a host that nobody named: %v", err)
	}
	if server.Logins.Load() != 0 {
		t.Error("a host was asked in vain")
	}
	testkit.Must(t, p.Power(t.Context(), name, "off"))
	if want := []string{"sudo -n -- systemctl poweroff"}; !slices.Equal(ran, want) {
		t.Errorf("the host was told %q, want %q", ran, want)
	}
}
