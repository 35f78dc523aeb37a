//go:build openstack

package openstack

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/credential"
	"github.com/naupegos/naupegos/internal/testkit"
	faults "github.com/naupegos/naupegos/test/openstack/fault"
)

// TestCloudCredential takes the cluster's credential through its life in a real Keystone: made with the needed roles and access rules only,
// found good again, rotated while the old one still works, pruned; and it can make no others itself. That for people is another one. Once
// they are gone, so are the access rules, which Keystone keeps once for all clusters of a user.
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
		if rules := rulesOf(context.Background(), t, p); len(rules) != 0 {
			t.Errorf("access rules that are left: %v", rules)
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
	if !first.Bounded || first.Reach != "" {
		t.Errorf("the credential has no access rules: %s", first.Reach)
	}
	rules := len(rulesOf(ctx, t, p))
	if rules < 30 {
		t.Errorf("%d access rules", rules)
	}
	people, err := p.PeopleCredential(ctx, time.Now().Add(time.Hour).Truncate(time.Second)) // a certificate knows no parts of seconds
	testkit.Must(t, err)
	second, err := p.NewCloudCredential(ctx, "")
	testkit.Must(t, err)
	if _, err := credential.SignIn(ctx, c, first); err != nil {
		t.Errorf("the old credential does not work before it is pruned: %v", err)
	}
	if n, err := p.PruneCloudCredentials(ctx, second.ID); n != 1 || err != nil {
		t.Errorf("%d were pruned, %v", n, err)
	}
	if n := len(rulesOf(ctx, t, p)); n != rules {
		t.Errorf("%d access rules of %d are left to the second credential", n, rules)
	}
	if _, err := credential.SignIn(ctx, c, first); cloud.Status(err) != http.StatusUnauthorized && cloud.Status(err) != http.StatusNotFound {
		t.Errorf("the old credential works after it was pruned: %v", err)
	}
	third, err := p.EnsureCloudCredential(ctx, &first)
	testkit.Must(t, err)
	if third.ID == first.ID {
		t.Error("a credential that is gone is returned as good")
	}
	testkit.Must(t, p.DeleteCloudCredential(ctx, second.ID))
	testkit.Must(t, p.DeleteCloudCredential(ctx, second.ID)) // twice is as good

	isBounded(ctx, t, p, third)
	worksAlone(ctx, t, n, people)
	goesBack(ctx, t, n)
}

// rulesOf lists the access rules that the provider's user has.
func rulesOf(ctx context.Context, t *testing.T, p *Provider) []applicationcredentials.AccessRule {
	t.Helper()
	c, err := p.cloud(ctx)
	testkit.Must(t, err)
	me, err := c.WhoAmI()
	testkit.Must(t, err)
	all, err := cloud.Pages(ctx, applicationcredentials.ListAccessRules(c.Identity, me.User.ID), applicationcredentials.ExtractAccessRules)
	testkit.Must(t, err)
	return all
}

// isBounded sends a cluster's calls with an access-rule credential, and other calls, which all services must refuse.
func isBounded(ctx context.Context, t *testing.T, p *Provider, cred provider.CloudCredential) {
	t.Helper()
	own, err := p.cloud(ctx)
	testkit.Must(t, err)
	pc, err := credential.SignIn(ctx, own, cred)
	testkit.Must(t, err)
	as := func(sc *gophercloud.ServiceClient) *gophercloud.ServiceClient {
		bounded := *sc
		bounded.ProviderClient = pc
		return &bounded
	}
	octavia, err := own.LoadBalancer()
	testkit.Must(t, err)
	compute, network, volume, balance := as(own.Compute), as(own.Network), as(own.Volume), as(octavia)

	var any any
	for url, c := range map[string]*gophercloud.ServiceClient{
		compute.ServiceURL("servers", "detail") + "?name=x": compute, network.ServiceURL("ports") + "?device_id=x": network,
		network.ServiceURL("networks"): network, network.ServiceURL("security-groups") + "?name=x": network, network.ServiceURL("extensions"): network,
		volume.ServiceURL("volumes", "detail"): volume, volume.ServiceURL("snapshots"): volume, volume.ServiceURL("backups", "detail"): volume,
		balance.ServiceURL("lbaas", "loadbalancers"): balance, balance.ServiceURL("lbaas", "providers"): balance, octavia.Endpoint: balance,
	} {
		if err := cloud.GetURL(ctx, c, &any, url); err != nil {
			t.Errorf("read %s: %v", url, err)
		}
	}
	made, err := volumes.Create(ctx, volume, volumes.CreateOpts{Name: "t4-bounded", Size: 1}, nil).Extract()
	testkit.Must(t, err)
	_, err = volumes.Get(ctx, volume, made.ID).Extract()
	testkit.Must(t, err)
	deleteVolume(t, volume, made.ID)
	outside, err := p.existing.External(ctx)
	testkit.Must(t, err)
	address, err := floatingips.Create(ctx, network, floatingips.CreateOpts{FloatingNetworkID: outside}).Extract()
	testkit.Must(t, err)
	testkit.Must(t, floatingips.Delete(ctx, network, address.ID).ExtractErr())

	me, err := own.WhoAmI()
	testkit.Must(t, err)
	for what, err := range map[string]error{
		"make a server":         servers.Create(ctx, compute, servers.CreateOpts{Name: "t4-no", FlavorRef: "1", ImageRef: "1"}, nil).Err,
		"delete a server":       servers.Delete(ctx, compute, me.Project.ID).Err,
		"make a key pair":       keypairs.Create(ctx, compute, keypairs.CreateOpts{Name: "t4-no"}).Err,
		"make a network":        networks.Create(ctx, network, networks.CreateOpts{Name: "t4-no"}).Err,
		"make a subnet":         subnets.Create(ctx, network, subnets.CreateOpts{NetworkID: me.Project.ID, CIDR: "10.0.0.0/24", IPVersion: 4}).Err,
		"make a router":         routers.Create(ctx, network, routers.CreateOpts{Name: "t4-no"}).Err,
		"make a security group": groups.Create(ctx, network, groups.CreateOpts{Name: "t4-no"}).Err,
		"change a port":         ports.Update(ctx, network, me.Project.ID, ports.UpdateOpts{}).Err,
		"list images":           cloud.Get(ctx, as(own.Image), &any, "images"),
		"make a credential":     applicationcredentials.Create(ctx, as(own.Identity), me.User.ID, applicationcredentials.CreateOpts{Name: "t4-no"}).Err, // Keystone itself does not hold to access rules
	} {
		if s := cloud.Status(err); s != http.StatusUnauthorized && s != http.StatusForbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// goesBack has a proxy change the paths of calls, so that they match no access rule: the credential is made without, and says why. None
// that was tried is left.
func goesBack(ctx context.Context, t *testing.T, n *tenant) {
	t.Helper()
	proxy, err := faults.New(onBed.bed)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, proxy.Close()) })
	const behind = "t4-behind"
	onBed.mu.Lock()
	text, err := yaml.Marshal(map[string]any{"clouds": map[string]any{behind: onBed.clouds[n.cloud]}})
	onBed.mu.Unlock()
	testkit.Must(t, err)
	text = bytes.ReplaceAll(text, []byte(n.admin.Login.Options.IdentityEndpoint), []byte(proxy.AuthURL()))
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	addCloud(t, behind, file, behind)
	p, _ := testProvider(t, testDocument(t, "t4-behind", strings.Replace(n.spec, n.cloud, behind, 1)), "t4-behind-0badcafe")
	before := len(rulesOf(ctx, t, p))
	cred, err := p.NewCloudCredential(ctx, "")
	testkit.Must(t, err)
	for _, want := range []string{"compute (service_type = compute)", "network (service_type = network)", "block storage (service_type = volumev3)", "load-balancer"} {
		if !strings.Contains(cred.Reach, want) {
			t.Errorf("it is not told that %q refuses: %s", want, cred.Reach)
		}
	}
	c, me, err := p.signedIn(ctx)
	testkit.Must(t, err)
	all, err := cloud.Pages(ctx, applicationcredentials.List(c.Identity, me.User.ID, nil), applicationcredentials.ExtractApplicationCredentials)
	testkit.Must(t, err)
	left := 0
	for _, a := range all {
		if a.Description == p.n.Mark() {
			left++
		}
	}
	if cred.Bounded || left != 1 {
		t.Errorf("%s is one of %d, bounded: %t", cred, left, cred.Bounded)
	}
	if n, err := p.PruneCloudCredentials(ctx); n != 1 || err != nil {
		t.Errorf("%d were deleted: %v", n, err)
	}
	if after := len(rulesOf(ctx, t, p)); after != before {
		t.Errorf("there were %d access rules, now there are %d", before, after)
	}
}

// worksAlone uses a credential through the clouds.yaml of a hand-over: it can list resources, but create no other credential.
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
	_, err = p.NewCloudCredential(ctx, "")
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

// TestLeftovers lists a claim's volume exactly: neither those of other clusters, nor one that only has a name like it. A restored cluster finds another's
// volume by its ID, and none that was deleted.
func TestLeftovers(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	doc := testDocument(t, "t4-left", balancedSpec)
	const id = "t4-left-0badcafe"
	p, _ := testProvider(t, doc, id)
	c, err := p.cloud(ctx)
	testkit.Must(t, err)
	ids := map[string]string{}
	for name, meta := range map[string]map[string]string{
		"pvc-1": {csiCluster: id, "csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/pvc/namespace": "shop"},
		"pvc-2": {csiCluster: id + "0"}, "pvc-3": {csiCluster: "t4-left"}, "pvc-" + id: {},
	} {
		v, err := volumes.Create(ctx, c.Volume, volumes.CreateOpts{Name: name, Size: 1, Metadata: meta}, nil).Extract()
		testkit.Must(t, err)
		t.Cleanup(func() { deleteVolume(t, c.Volume, v.ID) })
		ids[name] = v.ID
	}
	left, err := p.Leftovers(ctx)
	testkit.Must(t, err)
	if len(left.Volumes) != 1 || left.Volumes[0].Claim != "shop/data" || len(left.LoadBalancers) != 0 {
		t.Errorf("left: %v", left)
	}
	deleteVolume(t, c.Volume, ids["pvc-3"])
	gone := func() bool {
		_, err := volumes.Get(ctx, c.Volume, ids["pvc-3"]).Extract()
		return cloud.Gone(err)
	}
	for !gone() {
		testkit.Must(t, cloud.Sleep(ctx, time.Second))
	}
	found := testkit.Value(p.Volumes(ctx, []string{ids["pvc-2"], ids["pvc-3"]}))(t)
	own := map[string]bool{}
	for _, v := range found {
		own[v.ID] = v.Own
	}
	if len(found) != 2 || !own[ids["pvc-1"]] || own[ids["pvc-2"]] {
		t.Errorf("found: %v", found)
	}
}

// deleteVolume deletes a volume once Cinder has finished making it.
func deleteVolume(t *testing.T, c *gophercloud.ServiceClient, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for {
		err := volumes.Delete(ctx, c, id, nil).ExtractErr()
		if err == nil || cloud.Gone(err) {
			return
		}
		if cloud.Status(err) != 400 || cloud.Sleep(ctx, time.Second) != nil {
			t.Error(err)
			return
		}
	}
}
