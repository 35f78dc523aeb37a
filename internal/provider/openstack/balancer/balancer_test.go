package balancer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

const octaviaEndpoint = "endpoint: {kind: octavia, octavia: {ingress: {}}}"

const octaviaDocument = `
apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: t4}
spec:
  provider:
    openstack:
      cloud: naupegos
      externalNetwork: public
      network: {cidr: 10.87.0.0/24}
      machine: {flavor: m1.medium, image: debian-12, rootVolumeGiB: 10}
  ` + octaviaEndpoint + `
  controlPlane: {replicas: 3, machine: {floatingIP: true}}
  workers: [{name: general, replicas: 2}]
`

// settled is a floating IP that is as wanted.
type settled struct{}

func (settled) Lack(string) string                   { return "" }
func (settled) AskConsent(*plan.Step, string)        {}
func (settled) Ensure(context.Context, string) error { return nil }
func (settled) Forget()                              {}

// keeper returns the keeper of a document's load balancer, and the wanted load balancer. Nothing is known to exist.
func keeper(t *testing.T, document string) (*Keeper, provider.Wanted) {
	t.Helper()
	doc, err := validation.Parse("t4.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	var want provider.Wanted
	for _, m := range doc.Machines() {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
	}
	k := New(Options{
		Names: marks.Names{ID: "t4-0000abcd", Cluster: "t4"}, Octavia: doc.Spec.Endpoint.Octavia, Port: doc.Spec.Endpoint.Port, Floating: settled{},
		CIDR: func() string { return "10.87.0.0/24" },
	})
	place(k)
	return k, want
}

// place gives machines addresses.
func place(k *Keeper, names ...string) {
	k.opts.Machine = func(_ context.Context, name string) (provider.Machine, error) {
		i := slices.Index(names, name)
		if i < 0 {
			return provider.Machine{}, errors.New("there is no such machine")
		}
		return provider.Machine{Name: name, Address: "10.87.0." + string(rune('1'+i))}, nil
	}
}

// whole is a load balancer as it should be, with these members behind the API.
func whole(k *Keeper, members ...member) *State {
	b := &State{Fronts: map[string]Front{}, Ports: map[int]string{}}
	b.LB = loadbalancers.LoadBalancer{ID: "lb", Name: k.opts.Names.Name(FrontAPI), ProvisioningStatus: Active, VipAddress: "10.87.0.9", VipPortID: "vip-port"}
	for _, w := range k.wantedFronts(k.opts.CIDR()) {
		f := Front{
			Listener: listeners.Listener{
				ID: "l-" + w.name, ProtocolPort: w.port, AllowedCIDRs: w.allowed, DefaultPoolID: "p-" + w.name, TimeoutClientData: w.idle, TimeoutMemberData: w.idle,
			},
			Pool:    pools.Pool{ID: "p-" + w.name},
			Monitor: monitors.Monitor{ID: "m-" + w.name, Type: w.monitor},
		}
		for _, m := range members {
			if m.port == w.to {
				f.Members = append(f.Members, pools.Member{ID: "x", Name: m.name, Address: m.address, ProtocolPort: m.port})
			}
		}
		b.Fronts[w.name], b.Ports[w.port] = f, f.Listener.ID
	}
	return b
}

func TestBalanceFollows(t *testing.T) {
	k, want := keeper(t, octaviaDocument)
	place(k, "t4-cp-1", "t4-cp-2", "t4-cp-3", "t4-general-1", "t4-general-2")
	all := []member{
		{"t4-cp-1", "10.87.0.1", 6443}, {"t4-cp-2", "10.87.0.2", 6443}, {"t4-cp-3", "10.87.0.3", 6443},
		{"t4-general-1", "10.87.0.4", 30080}, {"t4-general-2", "10.87.0.5", 30080},
		{"t4-general-1", "10.87.0.4", 30443}, {"t4-general-2", "10.87.0.5", 30443},
	}
	k.seen = whole(k, all...)
	if s := append(k.Balance(want), k.Steps(want)...); len(s) != 0 {
		t.Fatalf("all is as wanted, and yet: %v", s[0].Details)
	}
	k.seen = whole(k, all[:1]...)
	if s := k.Steps(want); len(s) != 0 {
		t.Errorf("one member is enough to begin with, and yet: %v", s[0].Details)
	}
	s := k.Balance(want)
	if len(s) != 1 || len(s[0].Details) != 6 || !slices.Contains(s[0].Details, "add t4-general-2 (10.87.0.5:30443)") {
		t.Fatalf("balance %+v", s)
	}
	k.seen = whole(k, all[3:]...)
	if s := k.Steps(want); len(s) != 1 || s[0].Details[0] != "no wanted control-plane machine is in its pool" {
		t.Errorf("no backend serves the API, and the steps are %+v", s)
	}
	k.opts.Octavia.Ingress = nil
	if s := k.Balance(want); !slices.Contains(s[0].Details, "remove t4-0000abcd.ingress-http") {
		t.Errorf("the ingress is no longer wanted, and the steps are %+v", s[0].Details)
	}
}

func TestBalancerBegins(t *testing.T) {
	k, want := keeper(t, octaviaDocument)
	steps := k.Steps(want)
	if len(steps) != 1 || steps[0].ID != "loadbalancer" || !strings.Contains(strings.Join(steps[0].Details, " "), "port 6443 to t4-cp-1") {
		t.Fatalf("steps %+v", steps)
	}
	if b := k.Balance(want); len(b) != 1 || !strings.HasPrefix(b[0].ID, "balance/") {
		t.Errorf("balance %+v", b)
	}
}

func TestNoBalancerForOthers(t *testing.T) {
	k, want := keeper(t, strings.Replace(octaviaDocument, octaviaEndpoint, "endpoint: {kind: gateways}", 1))
	if s := append(k.Steps(want), k.Balance(want)...); len(s) != 0 {
		t.Errorf("steps %+v", s)
	}
}

func TestSettings(t *testing.T) {
	k, _ := keeper(t, strings.Replace(octaviaDocument, "ingress: {}", "allowedCIDRs: [203.0.113.0/24], monitor: tls", 1))
	api := k.wantedFronts("10.87.0.0/24")[0]
	if want := []string{"10.87.0.0/24", "203.0.113.0/24"}; !slices.Equal(api.allowed, want) {
		t.Errorf("allowed %v, want %v: the nodes themselves come through the load balancer", api.allowed, want)
	}
	for _, x := range []struct {
		name, want string
		change     func(*Front)
	}{
		{"as wanted", "", func(*Front) {}},
		{"listener", "listener on port 6443 is missing", func(f *Front) { f.Listener.ID = "" }},
		{"port", "listens on port 8443, 6443 is wanted", func(f *Front) { f.Listener.ProtocolPort = 8443 }},
		{"open", "port 6443 is open to all, [10.87.0.0/24 203.0.113.0/24] is wanted", func(f *Front) { f.Listener.AllowedCIDRs = nil }},
		{"order of networks", "", func(f *Front) { slices.Reverse(f.Listener.AllowedCIDRs) }},
		{"idle", "port 6443 cuts silent connections after 50000 ms, 3600000 is wanted", func(f *Front) { f.Listener.TimeoutClientData = 50000 }},
		{"pool", "pool behind port 6443 is missing", func(f *Front) { f.Pool.ID = "" }},
		{"other pool", "port 6443 leads nowhere", func(f *Front) { f.Listener.DefaultPoolID = "" }},
		{"monitor", "monitor of port 6443 is missing", func(f *Front) { f.Monitor.ID = "" }},
		{"kind of monitor", "monitor of port 6443 is TCP, TLS-HELLO is wanted", func(f *Front) { f.Monitor.Type = "TCP" }},
	} {
		f := whole(k).Front(api.name)
		f.Listener.AllowedCIDRs = slices.Clone(f.Listener.AllowedCIDRs)
		x.change(&f)
		if got := strings.Join(api.settings(f), "; "); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

func TestChanges(t *testing.T) {
	a, b, moved := member{"a", "10.0.0.1", 6443}, member{"b", "10.0.0.2", 6443}, member{"a", "10.0.0.9", 6443}
	if c := changes([]member{a, b}, []member{a, b}); len(c) != 0 {
		t.Errorf("nothing differs, and yet: %v", c)
	}
	got := changes([]member{a, b}, []member{moved})
	want := []string{"add a (10.0.0.9:6443)", "remove a (10.0.0.1:6443)", "remove b (10.0.0.2:6443)"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFirstMember(t *testing.T) {
	_, want := keeper(t, octaviaDocument)
	slices.Reverse(want.Machines)
	if first := First(want); first != "t4-cp-1" {
		t.Errorf("the first member is %q", first)
	}
	if first := First(provider.Wanted{}); first != "" {
		t.Errorf("of no machines the first is %q", first)
	}
}

func TestServes(t *testing.T) {
	k, _ := keeper(t, octaviaDocument)
	b := whole(k, member{"t4-cp-1", "10.87.0.1", 6443})
	for m, want := range map[string]bool{"t4-cp-1": true, "t4-cp-10": false} {
		if b.Serves(provider.Machine{Name: m}) != want {
			t.Errorf("serves %s: %v", m, !want)
		}
	}
	if !b.Serves(provider.Machine{Name: "renamed", Address: "10.87.0.1"}) {
		t.Error("the address is in the pool")
	}
	if (*State)(nil).Serves(provider.Machine{Name: "t4-cp-1"}) {
		t.Error("a missing load balancer has backends")
	}
}
