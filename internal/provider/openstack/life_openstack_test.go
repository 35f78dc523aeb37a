//go:build openstack

package openstack

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"github.com/naupegos/naupegos/internal/provider"
)

// TestInfrastructureLife creates a small cluster's infrastructure in a real cloud, finds it complete, removes it, and finds nothing; foreign
// resources with similar names stay.
func TestInfrastructureLife(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	doc := testDocument(t, "t3-life", smallSpec)
	const id = "t3-life-0badc0de"
	foreign := lookAlikes(ctx, t, id)
	clean(t, doc, id)

	p, calls := testProvider(t, doc, id)
	began := time.Now()
	if err := apply(ctx, p); err != nil {
		t.Fatal(err)
	}
	t.Logf("create: %d calls, %s", calls.n.Load(), time.Since(began).Round(100*time.Millisecond))

	inv, n, took := nothingToDo(ctx, t, doc, id)
	t.Logf("no change: %d calls, %s\n%s", n, took.Round(time.Millisecond), describe(inv))
	if len(inv.Machines) != 2 {
		t.Fatalf("%d machines", len(inv.Machines))
	}
	for _, m := range inv.Machines {
		if m.State != provider.Running || m.Address == "" || m.ID == "" {
			t.Errorf("%+v", m)
		}
		if (m.Role == provider.ControlPlane) != (m.Public != "") {
			t.Errorf("%s has floating IP %q", m.Name, m.Public)
		}
	}

	p, calls = testProvider(t, doc, id)
	began = time.Now()
	if err := destroy(ctx, p); err != nil {
		t.Fatal(err)
	}
	t.Logf("destroy: %d calls, %s", calls.n.Load(), time.Since(began).Round(100*time.Millisecond))
	isEmpty(ctx, t, doc, id)
	foreign()
}

// lookAlikes creates resources that a careless tool would take for the cluster's: a network and a volume whose names contain the cluster's name and
// ID, and the resources of a cluster whose name and ID are a prefix of ours. It returns the check that all of them still exist.
func lookAlikes(ctx context.Context, t *testing.T, id string) (check func()) {
	t.Helper()
	doc := testDocument(t, "t3", strings.ReplaceAll(smallSpec, "10.77.", "10.86."))
	other, _ := testProvider(t, doc, "t3-life") // the ID, too, is a prefix
	c, err := other.cloud(ctx)
	if err != nil {
		t.Fatal(err)
	}
	net, err := networks.Create(ctx, c.Network, networks.CreateOpts{Name: id, Description: "naupegos-cluster=" + id + "x"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { networks.Delete(context.Background(), c.Network, net.ID) })
	vol, err := volumes.Create(ctx, c.Volume, volumes.CreateOpts{Name: "t3-life-cp-1", Size: 1, Metadata: map[string]string{"naupegos_cluster": id + "x"}}, nil).Extract()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { volumes.Delete(context.Background(), c.Volume, vol.ID, nil) })
	clean(t, doc, "t3-life")
	if err := apply(ctx, other); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := networks.Get(ctx, c.Network, net.ID).Err; err != nil {
			t.Errorf("the foreign network: %v", err)
		}
		if err := volumes.Get(ctx, c.Volume, vol.ID).Err; err != nil {
			t.Errorf("the foreign volume: %v", err)
		}
		nothingToDo(ctx, t, doc, "t3-life")
	}
}
