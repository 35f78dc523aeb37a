//go:build openstack

package openstack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestNoValidHostOnTheRealServices wants two machines apart in a zone with one hypervisor: the error has Nova's words and a remedy, a smaller group
// needs nothing more, and the remedy creates the second machine. The first run's token expires midway.
func TestNoValidHostOnTheRealServices(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	zone := bed.Hosts[len(bed.Hosts)-1].Zone
	if n := len(keepIf(slices.Clone(bed.Hosts), func(h bed.Host) bool { return h.Zone == zone })); n != 1 {
		t.Fatalf("zone %s has %d hypervisors, one is needed", zone, n)
	}
	spec := strings.NewReplacer("10.77.", "10.84.", "v1.small", "m1.small", "rootVolumeGiB: 1", "antiAffinity: hard, zones: ["+zone+"]",
		"machine: {floatingIP: true}", "schedulable: false").Replace(smallSpec)
	doc := testDocument(t, "t3-nohost", spec)
	const id = "t3-nohost-0badc0de"
	clean(t, doc, id)
	p, _ := testProvider(t, doc, id, patient)
	c, err := p.cloud(ctx)
	testkit.Must(t, err)
	token := c.Client.Token()
	testkit.Must(t, tokens.Revoke(ctx, c.Identity, token).Err)
	testkit.Must(t, apply(ctx, p))
	if c.Client.Token() == token {
		t.Error("the token was revoked, and yet it is still used")
	}

	doc.Spec.Workers[0].Replicas = new(2)
	p, _ = testProvider(t, doc, id, patient)
	testkit.Fails(t, apply(ctx, p), fail.Refused, "t3-nohost-w-2", "No valid host was found", "in zone "+zone, "antiAffinity soft")
	p, _ = testProvider(t, doc, id, patient)
	inv, err := p.Observe(ctx)
	testkit.Must(t, err)
	testkit.Must(t, p.known.serverGroups.Load(ctx))
	for _, g := range p.known.serverGroups.All() {
		if g.Policy == nil || *g.Policy != "anti-affinity" || len(g.Members) == 0 {
			t.Errorf("server group %+v", g)
		}
	}
	if n := len(p.known.serverGroups.All()); n != 2 {
		t.Errorf("%d server groups", n)
	}
	i := slices.IndexFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == "t3-nohost-w-2" })
	if i < 0 || inv.Machines[i].State != provider.Partial || !strings.Contains(inv.Machines[i].Detail, "No valid host was found") {
		t.Fatalf("seen: %+v", inv.Machines)
	}

	testkit.Must(t, p.DestroyMachine(inv.Machines[i]).Run(ctx, silent{}))
	doc.Spec.Workers[0].Replicas = new(1)
	nothingToDo(ctx, t, doc, id)

	doc.Spec.Workers[0].Replicas, doc.Spec.Workers[0].Machine.AntiAffinity = new(2), v1alpha1.AntiAffinitySoft
	p, _ = testProvider(t, doc, id, patient)
	testkit.Must(t, apply(ctx, p))
	nothingToDo(ctx, t, doc, id)
	testkit.Must(t, p.known.serverGroups.Load(ctx))
	soft, ok := p.known.serverGroups.Find(func(g servergroups.ServerGroup) bool { return strings.HasSuffix(g.Name, ".w.soft") })
	if !ok || soft.Policy == nil || *soft.Policy != "soft-anti-affinity" {
		t.Errorf("the group of those that may be together is %+v", soft)
	}
	testkit.Must(t, destroy(ctx, p))
	isEmpty(ctx, t, doc, id)
}
