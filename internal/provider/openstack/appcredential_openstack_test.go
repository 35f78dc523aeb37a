//go:build openstack

package openstack

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCloudCredential takes the cluster's credential through its life in a real Keystone: made with the needed roles only, found good
// again, rotated while the old one still works, pruned; and it can make no others itself.
func TestCloudCredential(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	n := newTenant(ctx, t, "member", "load-balancer_member")
	doc := testDocument(t, "t4-appcred", n.spec)
	const id = "t4-appcred-0badcafe"
	p, _ := testProvider(t, doc, id)
	c, err := p.cloud(ctx)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if _, err := p.PruneCloudCredentials(context.Background()); err != nil {
			t.Error(err)
		}
	})
	first, err := p.EnsureCloudCredential(ctx, nil)
	testkit.Must(t, err)
	slices.Sort(first.Roles)
	if first.Secret == "" || !strings.Contains(first.Name, id) || !slices.Equal(first.Roles, []string{"load-balancer_member", "member"}) {
		t.Errorf("made %s with roles %v", first, first.Roles)
	}
	again, err := p.EnsureCloudCredential(ctx, &first)
	testkit.Must(t, err)
	if again.ID != first.ID || again.Secret != first.Secret {
		t.Errorf("the credential is good, and yet another one is made: %s", again)
	}
	second, err := p.NewCloudCredential(ctx)
	testkit.Must(t, err)
	if ok, err := p.accepts(ctx, c, first); !ok || err != nil {
		t.Errorf("the old credential does not work before it is pruned: %v", err)
	}
	if n, err := p.PruneCloudCredentials(ctx, second.ID); n != 1 || err != nil {
		t.Errorf("%d were pruned, %v", n, err)
	}
	if ok, err := p.accepts(ctx, c, first); ok || err != nil {
		t.Errorf("the old credential works after it was pruned: %v", err)
	}
	third, err := p.EnsureCloudCredential(ctx, &first)
	testkit.Must(t, err)
	if third.ID == first.ID {
		t.Error("a credential that is gone is returned as good")
	}
	testkit.Must(t, p.DeleteCloudCredential(ctx, second.ID))
	testkit.Must(t, p.DeleteCloudCredential(ctx, second.ID)) // twice is as good

	worksAlone(ctx, t, n, third)
}

// worksAlone uses a credential by the clouds.yaml that is handed over: it lists what it may, and makes no other credential.
func worksAlone(ctx context.Context, t *testing.T, n *tenant, cred provider.CloudCredential) {
	t.Helper()
	data, err := cred.CloudsYAML("naupegos-t4", "")
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	testkit.Must(t, os.WriteFile(file, data, 0o600))
	alone := n.cloud + "-alone"
	addCloud(t, alone, file, "naupegos-t4")
	doc := testDocument(t, "t4-appcred", strings.Replace(n.spec, n.cloud, alone, 1))
	p, _ := testProvider(t, doc, "t4-appcred-0badcafe")
	if _, err := p.Observe(ctx); err != nil {
		t.Fatalf("the credential can't be used: %v", err)
	}
	_, err = p.NewCloudCredential(ctx)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "--unrestricted") || strings.Contains(err.Error(), cred.Secret) {
		t.Errorf("a restricted credential makes another one: %v", err)
	}
	c, err := p.cloud(ctx)
	testkit.Must(t, err)
	p.session.c.Login.Source = "test"
	if me, err := c.WhoAmI(); err != nil || me.AppCredential == nil || !me.AppCredential.Restricted {
		t.Errorf("the token says %+v, %v", me, err)
	}
}

// TestLeftovers lists a claim's volume exactly: neither those of other clusters, nor one that only has a name like it.
func TestLeftovers(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	doc := testDocument(t, "t4-left", balancedSpec)
	const id = "t4-left-0badcafe"
	p, _ := testProvider(t, doc, id)
	c, err := p.cloud(ctx)
	testkit.Must(t, err)
	for name, meta := range map[string]map[string]string{
		"pvc-1": {csiCluster: id, "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop"},
		"pvc-2": {csiCluster: id + "0"}, "pvc-3": {csiCluster: "t4-left"}, "pvc-" + id: {},
	} {
		v, err := volumes.Create(ctx, c.Volume, volumes.CreateOpts{Name: name, Size: 1, Metadata: meta}, nil).Extract()
		testkit.Must(t, err)
		t.Cleanup(func() { deleteVolume(t, p, v.ID) })
	}
	left, err := p.Leftovers(ctx)
	testkit.Must(t, err)
	if len(left.Volumes) != 1 || left.Volumes[0].Claim != "shop/data" || len(left.LoadBalancers) != 0 {
		t.Errorf("left: %v", left)
	}
}

// deleteVolume deletes a volume once Cinder has finished making it.
func deleteVolume(t *testing.T, p *Provider, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for {
		err := volumes.Delete(ctx, p.session.c.Volume, id, nil).ExtractErr()
		if err == nil || cloud.Gone(err) {
			return
		}
		if cloud.Status(err) != 400 || cloud.Sleep(ctx, time.Second) != nil {
			t.Error(err)
			return
		}
	}
}
