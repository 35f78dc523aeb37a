package openstack

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
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

// frontProvider makes the provider of a document, and what the document wants. Nothing is known to exist.
func frontProvider(t *testing.T, document string) (*Provider, provider.Wanted) {
	t.Helper()
	return providerOf(t, document, Options{ClusterID: "t4-0000abcd", PublicKey: "ssh-ed25519 AAAA t4"})
}

func providerOf(t *testing.T, document string, o Options) (*Provider, provider.Wanted) {
	t.Helper()
	doc, err := v1alpha1.Parse("t4.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster = doc
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Wanted{VIP: doc.GatewayCount() > 0}
	for _, m := range doc.Machines() {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
	}
	return p, want
}

// whole is a load balancer as it should be, with these members behind the API.
func whole(p *Provider, members ...member) *balancer {
	b := &balancer{fronts: map[string]front{}, ports: map[int]string{}}
	b.lb = loadbalancers.LoadBalancer{ID: "lb", Name: p.n.Name(frontAPI), ProvisioningStatus: lbActive, VipAddress: "10.87.0.9", VipPortID: "vip-port"}
	for _, w := range p.wantedFronts(p.cidr()) {
		f := front{
			listener: listeners.Listener{
				ID: "l-" + w.name, ProtocolPort: w.port, AllowedCIDRs: w.allowed, DefaultPoolID: "p-" + w.name, TimeoutClientData: w.idle, TimeoutMemberData: w.idle,
			},
			pool:    pools.Pool{ID: "p-" + w.name},
			monitor: monitors.Monitor{ID: "m-" + w.name, Type: w.monitor},
		}
		for _, m := range members {
			if m.port == w.to {
				f.members = append(f.members, pools.Member{ID: "x", Name: m.name, Address: m.address, ProtocolPort: m.port})
			}
		}
		b.fronts[w.name], b.ports[w.port] = f, f.listener.ID
	}
	return b
}

// place gives machines ports, and with them addresses.
func place(p *Provider, names ...string) {
	p.known.servers = empty(func(s servers.Server) string { return s.ID })
	p.known.ports = empty(func(o ports.Port) string { return o.ID })
	p.known.floating = empty(func(f floatingips.FloatingIP) string { return f.ID })
	p.known.volumes = empty(func(v volumes.Volume) string { return v.ID })
	for i, name := range names {
		p.known.ports.Keep(ports.Port{
			ID: "port-" + name, Name: name, Tags: []string{p.n.Mark(), marks.KeyMachine + "=" + name},
			FixedIPs: []ports.IP{{IPAddress: "10.87.0." + string(rune('1'+i))}},
		})
	}
}

// empty is a cache of what there is nothing of until it is kept there; the cloud is not asked.
func empty[T any](id func(T) string) *cache.Cache[T] {
	c := cache.New(id, func(context.Context) ([]T, error) { return nil, nil })
	_ = c.Load(context.Background()) // it can't fail
	return c
}

func TestBalanceFollows(t *testing.T) {
	p, want := frontProvider(t, octaviaDocument)
	place(p, "t4-cp-1", "t4-cp-2", "t4-cp-3", "t4-general-1", "t4-general-2")
	all := []member{
		{"t4-cp-1", "10.87.0.1", 6443}, {"t4-cp-2", "10.87.0.2", 6443}, {"t4-cp-3", "10.87.0.3", 6443},
		{"t4-general-1", "10.87.0.4", 30080}, {"t4-general-2", "10.87.0.5", 30080},
		{"t4-general-1", "10.87.0.4", 30443}, {"t4-general-2", "10.87.0.5", 30443},
	}
	p.balancer = whole(p, all...)
	p.known.floating.Keep(floatingips.FloatingIP{ID: "f", PortID: "vip-port", FloatingIP: "198.51.100.9", Tags: p.n.RoleTags(frontAPI)})
	if s := append(p.Balance(want, nil), p.balancerSteps(want)...); len(s) != 0 {
		t.Fatalf("all is as wanted, and yet: %v", s[0].Details)
	}
	if a, err := p.PublicVIP(t.Context()); err != nil || a != "198.51.100.9" {
		t.Errorf("public VIP %q, %v", a, err)
	}
	p.balancer = whole(p, all[:1]...)
	if s := p.balancerSteps(want); len(s) != 0 {
		t.Errorf("one member is enough to begin with, and yet: %v", s[0].Details)
	}
	s := p.Balance(want, nil)
	if len(s) != 1 || len(s[0].Details) != 6 || !slices.Contains(s[0].Details, "add t4-general-2 (10.87.0.5:30443)") {
		t.Fatalf("balance %+v", s)
	}
	p.balancer = whole(p, all[3:]...)
	if s := p.balancerSteps(want); len(s) != 1 || s[0].Details[0] != "no wanted control-plane machine is in its pool" {
		t.Errorf("nobody serves the API, and the steps are %+v", s)
	}
	p.opts.Cluster.Spec.Endpoint.Octavia.Ingress = nil
	if s := p.Balance(want, nil); !slices.Contains(s[0].Details, "remove t4-0000abcd.ingress-http") {
		t.Errorf("the ingress is no longer wanted, and the steps are %+v", s[0].Details)
	}
}

func TestBalancerBegins(t *testing.T) {
	p, want := frontProvider(t, octaviaDocument)
	steps := p.balancerSteps(want)
	if len(steps) != 1 || steps[0].ID != "loadbalancer" || !strings.Contains(strings.Join(steps[0].Details, " "), "port 6443 to t4-cp-1") {
		t.Fatalf("steps %+v", steps)
	}
	if b := p.Balance(want, nil); len(b) != 1 || !strings.HasPrefix(b[0].ID, "balance/") {
		t.Errorf("balance %+v", b)
	}
}

func TestNoBalancerForOthers(t *testing.T) {
	p, want := frontProvider(t, strings.Replace(octaviaDocument, octaviaEndpoint, "endpoint: {kind: gateways}", 1))
	if s := append(p.balancerSteps(want), p.Balance(want, nil)...); len(s) != 0 {
		t.Errorf("steps %+v", s)
	}
}

func TestSettings(t *testing.T) {
	p, _ := frontProvider(t, strings.Replace(octaviaDocument, "ingress: {}", "allowedCIDRs: [203.0.113.0/24], monitor: tls", 1))
	api := p.wantedFronts("10.87.0.0/24")[0]
	if want := []string{"10.87.0.0/24", "203.0.113.0/24"}; !slices.Equal(api.allowed, want) {
		t.Errorf("allowed %v, want %v: the nodes themselves come through the load balancer", api.allowed, want)
	}
	for _, x := range []struct {
		name, want string
		change     func(*front)
	}{
		{"as wanted", "", func(*front) {}},
		{"listener", "listener on port 6443 is missing", func(f *front) { f.listener.ID = "" }},
		{"port", "listens on port 8443, 6443 is wanted", func(f *front) { f.listener.ProtocolPort = 8443 }},
		{"open", "port 6443 is open to all, [10.87.0.0/24 203.0.113.0/24] is wanted", func(f *front) { f.listener.AllowedCIDRs = nil }},
		{"order of networks", "", func(f *front) { slices.Reverse(f.listener.AllowedCIDRs) }},
		{"idle", "port 6443 cuts silent connections after 50000 ms, 3600000 is wanted", func(f *front) { f.listener.TimeoutClientData = 50000 }},
		{"pool", "pool behind port 6443 is missing", func(f *front) { f.pool.ID = "" }},
		{"other pool", "port 6443 leads nowhere", func(f *front) { f.listener.DefaultPoolID = "" }},
		{"monitor", "monitor of port 6443 is missing", func(f *front) { f.monitor.ID = "" }},
		{"kind of monitor", "monitor of port 6443 is TCP, TLS-HELLO is wanted", func(f *front) { f.monitor.Type = "TCP" }},
	} {
		f := whole(p).front(api.name)
		f.listener.AllowedCIDRs = slices.Clone(f.listener.AllowedCIDRs)
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
	p, want := frontProvider(t, octaviaDocument)
	slices.Reverse(want.Machines)
	if first := p.firstMember(want); first != "t4-cp-1" {
		t.Errorf("the first member is %q", first)
	}
	if first := p.firstMember(provider.Wanted{}); first != "" {
		t.Errorf("of no machines the first is %q", first)
	}
}

func TestVIPOfOctavia(t *testing.T) {
	p, _ := frontProvider(t, octaviaDocument)
	if _, err := p.VIP(t.Context()); err == nil {
		t.Error("there is a virtual address before there is a load balancer")
	}
	p.balancer = whole(p)
	if vip, err := p.VIP(t.Context()); err != nil || vip != "10.87.0.9" {
		t.Errorf("VIP %q, %v", vip, err)
	}
	if _, err := p.PublicVIP(t.Context()); err == nil {
		t.Error("there is a floating IP that nobody has made")
	}
}

func TestServes(t *testing.T) {
	p, _ := frontProvider(t, octaviaDocument)
	b := whole(p, member{"t4-cp-1", "10.87.0.1", 6443})
	for m, want := range map[string]bool{"t4-cp-1": true, "t4-cp-10": false} {
		if b.serves(provider.Machine{Name: m}) != want {
			t.Errorf("serves %s: %v", m, !want)
		}
	}
	if !b.serves(provider.Machine{Name: "renamed", Address: "10.87.0.1"}) {
		t.Error("the address is in the pool")
	}
	if (*balancer)(nil).serves(provider.Machine{Name: "t4-cp-1"}) {
		t.Error("no load balancer serves nobody")
	}
}

func TestServicesOfALoadBalancer(t *testing.T) {
	p, _ := frontProvider(t, octaviaDocument)
	for name, want := range map[string]string{
		"kube_service_t4-0000abcd_shop_web": "shop/web", "kube_service_t4-0000abcd0_shop_web": "", "kube_service_t4_0000abcd_web": "",
		"t4-0000abcd.api": "", "my kube_service_t4-0000abcd_shop_web": "",
	} {
		if got := p.servicesOf(loadbalancers.LoadBalancer{Name: name}); strings.Join(got, " ") != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	shared := loadbalancers.LoadBalancer{Name: "shared", Tags: []string{"kube_service_t4-0000abcd_shop_web", "kube_service_t4-0000abcd_shop_api"}}
	if got := p.servicesOf(shared); strings.Join(got, " ") != "shop/web shop/api" {
		t.Errorf("a shared load balancer: %v", got)
	}
}
