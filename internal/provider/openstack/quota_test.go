package openstack

import (
	"slices"
	"strings"
	"testing"
)

func TestShortages(t *testing.T) {
	have := allowances{
		resCores: {used: 12, limit: 20}, resServers: {used: 1, limit: 4}, resPorts: {used: 100, limit: -1},
		resVolumes: {used: 0, limit: 3}, resVolumes.ofType("ssd"): {used: 2, limit: 3},
	}
	need := demand{resCores: 26, resServers: 3, resPorts: 1000, resVolumes: 3, resVolumes.ofType("ssd"): 2, resRouters: 9}
	var got []string
	for _, s := range have.shortages(need) {
		got = append(got, s.String())
	}
	want := []string{"cores: 26 needed, 12 of 20 used: 18 too few", "volumes of type ssd: 2 needed, 2 of 3 used: 1 too few"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	need[resServers]++
	if n := len(have.shortages(need)); n != 3 {
		t.Errorf("a fourth server beside one of four is no shortage: %d shortages, 3 are wanted", n)
	}
}

// TestShortageOfWhatIsNotNeeded: a project that is over its quota already can still be served with what needs none of it.
func TestShortageOfWhatIsNotNeeded(t *testing.T) {
	have := allowances{resRouters: {used: 11, limit: 10}}
	if s := have.shortages(demand{resRouters: 0}); len(s) != 0 {
		t.Errorf("nothing is needed, and yet: %v", s)
	}
}

func TestVolumeDemand(t *testing.T) {
	d := demand{}
	d.volume(20, "")
	d.volume(30, "ssd")
	for r, want := range map[resource]int{
		resVolumes: 2, resGigabytes: 50, resVolumeSize: 30, resVolumes.ofType("ssd"): 1, resGigabytes.ofType("ssd"): 30,
	} {
		if d[r] != want {
			t.Errorf("%s: %d, want %d", r, d[r], want)
		}
	}
}

// TestDemand counts by hand what a cluster of one load balancer, three control-plane machines and two workers needs.
func TestDemand(t *testing.T) {
	p, want := frontProvider(t, octaviaDocument)
	d := p.demand(want, map[string]size{"m1.medium": {vcpus: 2, ramMiB: 4096}}, "10.87.0.0/24")
	rules := 0
	a := p.access("10.87.0.0/24")
	for _, r := range a.roles {
		rules += len(a.rules(r))
	}
	for r, n := range (demand{
		resServers: 5, resCores: 10, resRAM: 5 * 4096, resServerGroups: 2, resGroupMembers: 3, resKeypairs: 1,
		resVolumes: 5, resGigabytes: 50, resVolumeSize: 10, resNetworks: 1, resSubnets: 1, resRouters: 1,
		resPorts:       5 + 1 + 1, // machines, router, load balancer
		resFloatingIPs: 3 + 1, resSecurityGroups: 2, resRules: rules,
		resLoadBalancers: 1, resListeners: 3, resPools: 3, resMonitors: 3, resMembers: 3 + 2 + 2,
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
	d := p.demand(want, nil, "10.87.0.0/24")
	for r, n := range (demand{
		resServers: 7, resPorts: 7 + 1 + 1, resFloatingIPs: 3 + 2 + 1, resSecurityGroups: 3, resLoadBalancers: 0, resServerGroups: 3,
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
		if older(x.a, x.b) != x.want {
			t.Errorf("older(%s, %s) is %v", x.a, x.b, !x.want)
		}
	}
}
