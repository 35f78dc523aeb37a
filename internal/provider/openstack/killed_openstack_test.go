//go:build openstack

package openstack

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
	faults "github.com/naupegos/naupegos/test/openstack/fault"
)

// TestKilledAfterEveryCall kills an apply, and then a destroy, after a call that changes something: the real cloud carries it out, but the program
// does not get the answer and makes no other call. The next run continues from there by a few changes: with -full up to the very next one, so that
// there is a run that ends with each, else a random number of one to seven. In the end the cloud's own listing shows exactly what is wanted, and
// after the destroy nothing.
func TestKilledAfterEveryCall(t *testing.T) {
	b := useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Minute)
	defer cancel()
	const name, id = "t3-killed", "t3-killed-0badc0de"
	spec := strings.ReplaceAll(smallSpec, "10.77.", "10.79.")
	doc := testDocument(t, name, spec)
	clean(t, doc, id)
	proxy, through := throughProxy(t, b, name, spec)
	furthest := 7
	if testkit.Full() {
		furthest = 1
	}
	rnd := testkit.Rand(t)

	again := func(what string, run func(context.Context, *Provider) error) {
		for n := 1; ; n++ {
			if n > 100 {
				t.Fatalf("%s: still not done after 100 runs", what)
			}
			k := &killer{next: &http.Transport{DisableKeepAlives: true}}
			p, _ := testProvider(t, through, id, func(o *Options) { o.Calls.Retry.Attempts = 1; o.Calls.HTTPClient.Transport = k })
			struck, err := runKilled(ctx, proxy, k, 1+rnd.IntN(furthest), func(ctx context.Context) error { return run(ctx, p) })
			if struck == "" {
				proxy.Reset()
				if err != nil {
					t.Fatalf("%s, run %d, which was not killed: %v", what, n, err)
				}
				t.Logf("%s: done with run %d, after %d that were killed", what, n, n-1)
				return
			}
			t.Logf("%s: run %d was killed after %s", what, n, struck)
		}
	}
	again("apply", apply)
	nothingToDo(ctx, t, doc, id)
	want := map[string]int{
		"networks": 1, "subnets": 1, "routers": 1, "ports": 3, "security groups": 2, "floating IPs": 1, "servers": 2, "volumes": 2,
		"server groups": 2, "keypairs": 1,
	}
	for kind, n := range everythingOf(ctx, t, id) {
		if n != want[kind] {
			t.Errorf("the cloud has %d %s of the cluster, %d are wanted", n, kind, want[kind])
		}
	}
	again("destroy", destroy)
	isEmpty(ctx, t, doc, id)
	for kind, n := range everythingOf(ctx, t, id) {
		if n != 0 {
			t.Errorf("the cloud still has %d %s of the cluster", n, kind)
		}
	}
}

// throughProxy returns a proxy before the bed's services, and the document of a cluster whose calls go that way.
func throughProxy(t *testing.T, b *bed.Bed, name, spec string) (*faults.Proxy, *v1alpha1.Cluster) {
	t.Helper()
	proxy, err := faults.New(b)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, proxy.Close()) })
	file, err := proxy.CloudsYAML(t.TempDir())
	testkit.Must(t, err)
	addCloud(t, name, file, bed.Cloud)
	return proxy, testDocument(t, name, strings.Replace(spec, "openstack:\n", "openstack:\n      cloud: "+name+"\n", 1))
}

// killer is the transport of a run that is killed: once the call that is its last has ended, the run is over.
type killer struct {
	next http.RoundTripper
	mu   sync.Mutex
	last string // path of that call; empty: not yet
	kill context.CancelFunc
}

// RoundTrip passes on, and kills after the last call.
func (k *killer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := k.next.RoundTrip(r)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.last != "" && r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, k.last) {
		k.kill()
	}
	return resp, err
}

// runKilled permits a run a number of changes and then no other call. It returns the last change, or "" if the run ended with fewer.
func runKilled(ctx context.Context, proxy *faults.Proxy, k *killer, changes int, run func(context.Context) error) (string, error) {
	proxy.Reset()
	ctx, k.kill = context.WithCancel(ctx)
	defer k.kill()
	dead := func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.last != ""
	}
	struck := ""
	proxy.FailWhen(func(c faults.Call) bool {
		if c.Method == http.MethodGet || strings.HasSuffix(c.Path, "/auth/tokens") || dead() {
			return false
		}
		if changes--; changes > 0 {
			return false
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		struck, k.last = c.Method+" "+c.Path, c.Path
		return true
	}, 1, faults.Fault{Cut: faults.After})
	proxy.FailWhen(func(faults.Call) bool { return dead() }, 1<<30, faults.Fault{Cut: faults.Before})
	err := run(ctx)
	return struck, err
}

// everythingOf asks the cloud, without any filter, for everything that bears the cluster's name, and counts it.
func everythingOf(ctx context.Context, t *testing.T, id string) map[string]int {
	t.Helper()
	p, _ := testProvider(t, testDocument(t, "t3-list", smallSpec), id)
	c, err := p.cloud(ctx)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	cluster := strings.TrimSuffix(id, "-0badc0de")
	count := func(kind string, err error, names ...string) {
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = 0
		for _, n := range names {
			if strings.Contains(n, cluster) {
				out[kind]++
			}
		}
	}
	nets, err := cloud.Pages(ctx, networks.List(c.Network, networks.ListOpts{}), networks.ExtractNetworks)
	count("networks", err, texts(nets, func(n networks.Network) string { return n.Name })...)
	subs, err := cloud.Pages(ctx, subnets.List(c.Network, subnets.ListOpts{}), subnets.ExtractSubnets)
	count("subnets", err, texts(subs, func(s subnets.Subnet) string { return s.Name })...)
	rts, err := cloud.Pages(ctx, routers.List(c.Network, routers.ListOpts{}), routers.ExtractRouters)
	count("routers", err, texts(rts, func(r routers.Router) string { return r.Name })...)
	pts, err := cloud.Pages(ctx, ports.List(c.Network, ports.ListOpts{}), ports.ExtractPorts)
	count("ports", err, texts(pts, func(o ports.Port) string { return o.Name })...)
	sgs, err := cloud.Pages(ctx, groups.List(c.Network, groups.ListOpts{}), groups.ExtractGroups)
	count("security groups", err, texts(sgs, func(g groups.SecGroup) string { return g.Name })...)
	fips, err := cloud.Pages(ctx, floatingips.List(c.Network, floatingips.ListOpts{}), floatingips.ExtractFloatingIPs)
	count("floating IPs", err, texts(fips, func(f floatingips.FloatingIP) string { return f.Description })...)
	srv, err := cloud.Pages(ctx, servers.List(c.Compute, servers.ListOpts{}), servers.ExtractServers)
	count("servers", err, texts(srv, func(s servers.Server) string { return s.Name })...)
	vol, err := cloud.Pages(ctx, volumes.List(c.Volume, volumes.ListOpts{}), volumes.ExtractVolumes)
	count("volumes", err, texts(vol, func(v volumes.Volume) string { return v.Name })...)
	sg, err := cloud.Pages(ctx, servergroups.List(c.Compute, servergroups.ListOpts{}), servergroups.ExtractServerGroups)
	count("server groups", err, texts(sg, func(g servergroups.ServerGroup) string { return g.Name })...)
	kp, err := cloud.Pages(ctx, keypairs.List(c.Compute, nil), keypairs.ExtractKeyPairs)
	count("keypairs", err, texts(kp, func(k keypairs.KeyPair) string { return k.Name })...)
	listedBalancing(ctx, t, p, count)
	return out
}

func texts[T any](all []T, f func(T) string) []string {
	var out []string
	for _, x := range all {
		out = append(out, f(x))
	}
	return out
}
