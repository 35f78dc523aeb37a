package openstack

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/firewall"
	"github.com/naupegos/naupegos/internal/provider/openstack/quota"
)

func TestShortages(t *testing.T) {
	have := quota.Allowances{
		quota.Cores: {Used: 12, Limit: 20}, quota.Servers: {Used: 1, Limit: 4}, quota.Ports: {Used: 100, Limit: -1},
		quota.Volumes: {Used: 0, Limit: 3}, quota.Volumes.OfType("ssd"): {Used: 2, Limit: 3},
	}
	need := quota.Demand{quota.Cores: 26, quota.Servers: 3, quota.Ports: 1000, quota.Volumes: 3, quota.Volumes.OfType("ssd"): 2, quota.Routers: 9}
	var got []string
	for _, s := range have.Shortages(need) {
		got = append(got, s.String())
	}
	want := []string{"cores: 26 needed, 12 of 20 used: 18 too few", "volumes of type ssd: 2 needed, 2 of 3 used: 1 too few"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	need[quota.Servers]++
	if n := len(have.Shortages(need)); n != 3 {
		t.Errorf("a fourth server beside one of four is no shortage: %d shortages, 3 are wanted", n)
	}
}

// TestShortageOfWhatIsNotNeeded: a project that already exceeds a quota can serve a cluster that needs none of that resource.
func TestShortageOfWhatIsNotNeeded(t *testing.T) {
	have := quota.Allowances{quota.Routers: {Used: 11, Limit: 10}}
	if s := have.Shortages(quota.Demand{quota.Routers: 0}); len(s) != 0 {
		t.Errorf("nothing is needed, and yet: %v", s)
	}
}

func TestVolumeDemand(t *testing.T) {
	d := quota.Demand{}
	d.Volume(20, "")
	d.Volume(30, "ssd")
	for r, want := range map[quota.Resource]int{
		quota.Volumes: 2, quota.Gigabytes: 50, quota.VolumeSize: 30, quota.Volumes.OfType("ssd"): 1, quota.Gigabytes.OfType("ssd"): 30,
	} {
		if d[r] != want {
			t.Errorf("%s: %d, want %d", r, d[r], want)
		}
	}
}

// TestDemand: the expected demand of a cluster of one load balancer, three control-plane machines and two workers is counted by hand.
func TestDemand(t *testing.T) {
	p, want := frontProvider(t, octaviaDocument)
	d := demand(p, want, map[string]size{"m1.medium": {vcpus: 2, ramMiB: 4096}}, "10.87.0.0/24")
	rules := 0
	a := firewall.AccessOf(p.opts.Cluster, "10.87.0.0/24")
	for _, r := range a.Roles {
		rules += len(a.Rules(r))
	}
	for r, n := range (quota.Demand{
		quota.Servers: 5, quota.Cores: 10, quota.RAM: 5 * 4096, quota.ServerGroups: 2, quota.GroupMembers: 3, quota.Keypairs: 1,
		quota.Volumes: 5, quota.Gigabytes: 50, quota.VolumeSize: 10, quota.Networks: 1, quota.Subnets: 1, quota.Routers: 1,
		quota.Ports:       5 + 1 + 1, // machines, router, load balancer
		quota.FloatingIPs: 3 + 1, quota.SecurityGroups: 2, quota.Rules: rules,
		quota.LoadBalancers: 1, quota.Listeners: 3, quota.Pools: 3, quota.Monitors: 3, quota.Members: 3 + 2 + 2,
	}) {
		if d[r] != n {
			t.Errorf("%s: %d, want %d", r, d[r], n)
		}
		delete(d, r)
	}
	for r, n := range d {
		t.Errorf("%d %s are counted, none is wanted", n, r)
	}
}

func TestDemandOfGateways(t *testing.T) {
	p, want := frontProvider(t, strings.Replace(octaviaDocument, octaviaEndpoint, "endpoint: {kind: gateways, gateways: {replicas: 2}}", 1))
	d := demand(p, want, nil, "10.87.0.0/24")
	for r, n := range (quota.Demand{
		quota.Servers: 7, quota.Ports: 7 + 1 + 1, quota.FloatingIPs: 3 + 2 + 1, quota.SecurityGroups: 3, quota.LoadBalancers: 0, quota.ServerGroups: 3,
	}) {
		if d[r] != n {
			t.Errorf("%s: %d, want %d", r, d[r], n)
		}
	}
}

func TestOlder(t *testing.T) {
	for _, x := range []struct {
		a, b string
		want bool
	}{{"2.9", "2.79", true}, {"2.79", "2.79", false}, {"2.93", "2.79", false}, {"1.99", "2.0", true}, {"", "2.79", false}} {
		if cloud.Older(x.a, x.b) != x.want {
			t.Errorf("cloud.Older(%s, %s) is %v", x.a, x.b, !x.want)
		}
	}
}
