//go:build openstack

package openstack

import (
	"context"
	"flag"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
	faults "github.com/naupegos/naupegos/test/openstack/fault"
)

var every = flag.Int("every", 12, "TestEveryCallOnTheRealServices disturbs one call of so many, beginning with a random one; 1: all of them, as with -full")

// disturbance is a fault of a call. After one that kills the run, no other call of that run reaches the cloud.
type disturbance struct {
	name string
	what faults.Fault
	dies bool
}

var disturbances = []disturbance{
	{"answered with 500", faults.Fault{Status: http.StatusInternalServerError}, false},
	{"cut after", faults.Fault{Cut: faults.After}, false},
	{"dies before", faults.Fault{Cut: faults.Before}, true},
	{"dies after", faults.Fault{Cut: faults.After}, true},
	{"cut before", faults.Fault{Cut: faults.Before}, false},
}

// disturbed makes the n-th call of a run fail. It returns that call, or "" if the run had fewer.
func disturbed(ctx context.Context, t *testing.T, proxy *faults.Proxy, n int, d disturbance, run func(context.Context) error) (call string, err error) {
	t.Helper()
	proxy.Reset()
	defer proxy.Reset()
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	proxy.FailAt(n, d.what)
	if d.dies {
		proxy.FailWhen(func(c faults.Call) bool {
			if c.N > n {
				kill()
			}
			return c.N > n
		}, 1<<30, faults.Fault{Cut: faults.Before})
	}
	err = run(ctx)
	if err := proxy.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls := proxy.Calls(); len(calls) >= n {
		call = calls[n-1].String()
	}
	return call, err
}

// TestEveryCallOnTheRealServices makes one call of an apply fail, checks that one more run reaches the goal, makes the same call of a destroy fail,
// and checks that one more run leaves nothing; so for all calls in turn. The cloud's own listing shows its resources. Foreign resources with similar
// names stay. TestEveryCallOfApply and TestEveryCallOfDestroy do that on a fake cloud with all ways to go wrong; here each call has one of them, by
// chance.
func TestEveryCallOnTheRealServices(t *testing.T) {
	b := useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Hour)
	defer cancel()
	const name, id = "t3-every", "t3-every-0badc0de"
	spec := strings.NewReplacer("10.77.", "10.76.", "kind: direct", "kind: octavia").Replace(smallSpec)
	doc := testDocument(t, name, spec)
	foreign := lookAlikes(ctx, t, id)
	clean(t, doc, id)
	p, _ := testProvider(t, doc, id)
	if err := destroy(ctx, p); err != nil { // left by a killed test
		t.Fatal(err)
	}
	others := everythingOf(ctx, t, id) // with names that look like the cluster's
	proxy, through := throughProxy(t, b, name, spec)
	fresh := func() *Provider { // as a new run of the command has one
		p, _ := testProvider(t, through, id, patient, func(o *Options) {
			o.Calls.Retry.Attempts, o.Timeouts.Poll, o.Calls.HTTPClient.Transport = 1, 500*time.Millisecond, &http.Transport{DisableKeepAlives: true}
		})
		return p
	}
	runs := map[string]func(context.Context) error{
		"apply":   func(ctx context.Context) error { return apply(ctx, fresh()) },
		"destroy": func(ctx context.Context) error { return destroy(ctx, fresh()) },
	}
	want := map[string]map[string]int{"destroy": {}, "apply": {
		"networks": 1, "subnets": 1, "routers": 1, "ports": 3, "security groups": 2, "floating IPs": 2, "servers": 2, "volumes": 2,
		"server groups": 2, "keypairs": 1, "load balancers": 1, "listeners": 1, "pools": 1, "health monitors": 1, "members": 1,
	}}
	ended := map[string]bool{}
	rnd, step := testkit.Rand(t), *every
	if testkit.Full() {
		step = 1
	}
	for n := 1 + rnd.IntN(step); len(ended) < len(runs); n += step {
		d := disturbances[rnd.IntN(len(disturbances))]
		for _, verb := range []string{"apply", "destroy"} {
			call, firstErr := disturbed(ctx, t, proxy, n, d, runs[verb])
			if call == "" && firstErr != nil {
				t.Fatalf("%s, undisturbed: %v", verb, firstErr)
			}
			if call == "" && !ended[verb] {
				t.Logf("%s has no call %d", verb, n)
				ended[verb] = true
			}
			if call != "" {
				t.Logf("%s, call %d %s: %s: %v", verb, n, d.name, call, brief(firstErr))
				if err := runs[verb](ctx); err != nil {
					t.Fatalf("the %s after the one whose call %d (%s) was %s, and which ended with %v: %v", verb, n, call, d.name, firstErr, err)
				}
			}
			for kind, have := range everythingOf(ctx, t, id) {
				if have -= others[kind]; have != want[verb][kind] {
					t.Errorf("%s, call %d %s: %s: the cloud has %d %s of the cluster, %d are wanted", verb, n, d.name, call, have, kind, want[verb][kind])
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	foreign()
}

// brief is the beginning of an error's text.
func brief(err error) string {
	if err == nil {
		return "it went on"
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text[:min(len(text), 160)]
}

// listedBalancing adds Octavia's resources: load balancers and their parts, by name.
func listedBalancing(ctx context.Context, t *testing.T, p *Provider, count func(kind string, err error, names ...string)) {
	t.Helper()
	c, err := p.balancer.Client(ctx)
	if err != nil || c == nil {
		t.Fatalf("no load balancing: %v", err)
	}
	lbs, err := cloud.Pages(ctx, loadbalancers.List(c, nil), loadbalancers.ExtractLoadBalancers)
	count("load balancers", err, texts(lbs, func(b loadbalancers.LoadBalancer) string { return b.Name })...)
	ls, err := cloud.Pages(ctx, listeners.List(c, nil), listeners.ExtractListeners)
	count("listeners", err, texts(ls, func(l listeners.Listener) string { return l.Name })...)
	all, err := cloud.Pages(ctx, pools.List(c, nil), pools.ExtractPools)
	count("pools", err, texts(all, func(o pools.Pool) string { return o.Name })...)
	ms, err := cloud.Pages(ctx, monitors.List(c, nil), monitors.ExtractMonitors)
	count("health monitors", err, texts(ms, func(m monitors.Monitor) string { return m.Name })...)
	var members []string
	for _, o := range all {
		some, err := cloud.Pages(ctx, pools.ListMembers(c, o.ID, nil), pools.ExtractMembers)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, texts(some, func(m pools.Member) string { return o.Name + "/" + m.Name })...)
	}
	count("members", nil, members...)
}
