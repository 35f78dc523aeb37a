//go:build openstack

package openstack

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$`)

const measuredSpec = `  provider:
    openstack:
      externalNetwork: public
      trustOnFirstUse: true
      network: {cidr: 10.80.0.0/24}
      machine: {flavor: v1.small, image: debian-12, rootVolumeGiB: 1, zones: [az1, az2, az3]}
  endpoint: {kind: octavia}
  controlPlane: {replicas: 3}
  workers:
    - {name: w, replicas: WORKERS}
`

// TestMeasure makes one load balancer, three control-plane machines and three workers (with -full ten), and counts calls and time. The
// number of calls of a run that changes nothing must not depend on the number of machines.
func TestMeasure(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	const id = "t3-measure-0badc0de"
	workers := 3
	if testkit.Full() {
		workers = 10
	}
	few := testDocument(t, "t3-measure", strings.ReplaceAll(measuredSpec, "WORKERS", "1"))
	many := testDocument(t, "t3-measure", strings.ReplaceAll(measuredSpec, "WORKERS", strconv.Itoa(workers)))
	clean(t, many, id)

	timed := func(what string, p *Provider, calls *counter, run func(context.Context, *Provider) error) {
		began := time.Now()
		if err := run(ctx, p); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d calls, %s: %s", what, calls.n.Load(), time.Since(began).Round(100*time.Millisecond), calls.summary())
	}
	p, calls := testProvider(t, many, id)
	timed(fmt.Sprintf("create 1 + 3 + %d", workers), p, calls, applyAll)
	inv, n, took := nothingToDo(ctx, t, many, id)
	t.Logf("no change, %d machines: %d calls, %s\n%s", len(inv.Machines), n, took.Round(time.Millisecond), describe(inv))
	zones := map[string]int{}
	for _, m := range inv.Machines {
		zones[m.Zone]++
	}
	if len(inv.Machines) != 3+workers || len(zones) != 3 || zones["az1"] != 1+(workers+2)/3 {
		t.Errorf("%d machines, spread over zones as %v", len(inv.Machines), zones)
	}
	volumesInZones(ctx, t, many, inv, id)
	p, calls = testProvider(t, few, id)
	timed("remove all workers but one", p, calls, func(ctx context.Context, p *Provider) error {
		inv, err := p.Observe(ctx)
		if err != nil {
			return err
		}
		var steps []*plan.Step
		for _, m := range inv.Machines {
			if m.Role == provider.Worker && m.Index > 1 {
				steps = append(steps, p.DestroyMachine(m))
			}
		}
		return execute(ctx, "scale", steps)
	})
	if _, less, _ := nothingToDo(ctx, t, few, id); less != n {
		t.Errorf("a run that changes nothing makes %d calls with 4 machines, %d with %d", less, n, 3+workers)
	}
	p, calls = testProvider(t, few, id)
	timed("destroy 1 + 3 + 1", p, calls, destroy)
	isEmpty(ctx, t, many, id)
}

// volumesInZones checks that root volumes are in their machines' zone where Cinder has one of that name, and in its usual zone else.
func volumesInZones(ctx context.Context, t *testing.T, doc *v1alpha1.Cluster, inv *provider.Inventory, id string) {
	t.Helper()
	p, _ := testProvider(t, doc, id)
	if _, err := p.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	for _, m := range inv.Machines {
		v, ok := p.known.volumes.Find(func(v volumes.Volume) bool { return v.Name == m.Name })
		want := "nova"
		if m.Zone == bed.VolumeZone {
			want = bed.VolumeZone
		}
		if !ok || v.AvailabilityZone != want {
			t.Errorf("%s is in zone %s, its root volume in %q, not in %s", m.Name, m.Zone, v.AvailabilityZone, want)
		}
	}
}

// applyAll makes everything, and then all machines members of the load balancer.
func applyAll(ctx context.Context, p *Provider) error {
	if err := apply(ctx, p); err != nil {
		return err
	}
	inv, err := p.Observe(ctx)
	if err != nil {
		return err
	}
	return execute(ctx, "balance", p.Balance(wanted(p.opts.Cluster), inv))
}

// summary counts calls by method.
func (c *counter) summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[string]int{}
	for _, s := range c.seen {
		method, path, _ := strings.Cut(s, " ")
		parts := strings.Split(strings.Trim(path, "/"), "/")
		for i, p := range parts {
			if uuid.MatchString(p) || len(p) == 32 {
				parts[i] = "*"
			}
		}
		by[method+" "+strings.Join(parts, "/")]++
	}
	var out []string
	for k, n := range by {
		out = append(out, k+" × "+strconv.Itoa(n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
