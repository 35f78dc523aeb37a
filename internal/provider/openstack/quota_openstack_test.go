//go:build openstack

package openstack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/quota"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

const quotaSpec = `  provider:
    openstack:
      cloud: naupegos
      externalNetwork: public
      trustOnFirstUse: true
      network: {cidr: 10.81.0.0/24}
      machine: {flavor: v1.small, image: debian-12, rootVolumeGiB: 2}
  endpoint: {kind: octavia, octavia: {ingress: {}}}
  controlPlane: {replicas: 3, machine: {floatingIP: true}}
  workers:
    - {name: w, replicas: 2}
`

// tenant is a project of the test's own with an ordinary user, so that quotas disturb no other test.
type tenant struct {
	t       *testing.T
	admin   *cloud.Cloud
	project string
	cloud   string // entry of clouds.yaml for the user's access
	wrong   string // the same with another password
	spec    string // quotaSpec in that cloud
}

// newTenant makes project and user, and names them in clouds.yaml.
func newTenant(ctx context.Context, t *testing.T, roleNames ...string) *tenant {
	t.Helper()
	doc := testDocument(t, "t4-admin", strings.Replace(quotaSpec, bed.Cloud, bed.AdminCloud, 1))
	p, _ := testProvider(t, doc, "t4-admin-0badcafe")
	admin, err := p.cloud(ctx)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t4-%x", time.Now().UnixNano())
	project, err := projects.Create(ctx, admin.Identity, projects.CreateOpts{Name: name, DomainID: "default"}).Extract()
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := projects.Delete(context.Background(), admin.Identity, project.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
	})
	const password = "t4-is-not-secret"
	user, err := users.Create(ctx, admin.Identity, users.CreateOpts{Name: name, DomainID: "default", Password: password, DefaultProjectID: project.ID}).Extract()
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := users.Delete(context.Background(), admin.Identity, user.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
	})
	known, err := cloud.Pages(ctx, roles.List(admin.Identity, nil), roles.ExtractRoles)
	testkit.Must(t, err)
	for _, r := range known {
		for _, want := range roleNames {
			if r.Name == want {
				testkit.Must(t, roles.Assign(ctx, admin.Identity, r.ID, roles.AssignOpts{UserID: user.ID, ProjectID: project.ID}).ExtractErr())
			}
		}
	}
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := fmt.Sprintf(`clouds:
  right:
    auth: {auth_url: %q, username: %s, password: %s, project_name: %s, user_domain_name: Default, project_domain_name: Default}
    region_name: %s
  wrong:
    auth: {auth_url: %q, username: %s, password: not-%s, project_name: %s, user_domain_name: Default, project_domain_name: Default}
`, admin.Login.Options.IdentityEndpoint, name, password, name, admin.Login.Where.Region, admin.Login.Options.IdentityEndpoint, name, password, name)
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	n := &tenant{t: t, admin: admin, project: project.ID, cloud: name, wrong: name + "-wrong"}
	addCloud(t, n.cloud, file, "right")
	addCloud(t, n.wrong, file, "wrong")
	n.spec = strings.Replace(quotaSpec, bed.Cloud, n.cloud, 1)
	return n
}

// setting is where a quota is set: service, its name there.
type setting struct {
	service, key string
}

var quotas = map[quota.Resource]setting{
	quota.Servers: {"compute", "instances"}, quota.Cores: {"compute", "cores"}, quota.RAM: {"compute", "ram"},
	quota.ServerGroups: {"compute", "server_groups"}, quota.GroupMembers: {"compute", "server_group_members"}, quota.Keypairs: {"compute", "key_pairs"},
	quota.Volumes: {"volume", "volumes"}, quota.Gigabytes: {"volume", "gigabytes"}, quota.VolumeSize: {"volume", "per_volume_gigabytes"},
	quota.Networks: {"network", "network"}, quota.Subnets: {"network", "subnet"}, quota.Routers: {"network", "router"}, quota.Ports: {"network", "port"},
	quota.FloatingIPs: {"network", "floatingip"}, quota.SecurityGroups: {"network", "security_group"}, quota.Rules: {"network", "security_group_rule"},
	quota.LoadBalancers: {"balancer", "loadbalancer"}, quota.Listeners: {"balancer", "listener"}, quota.Pools: {"balancer", "pool"},
	quota.Members: {"balancer", "member"}, quota.Monitors: {"balancer", "healthmonitor"},
}

// set sets quotas of the project, one call for each service.
func (n *tenant) set(ctx context.Context, limits map[quota.Resource]int) {
	n.t.Helper()
	by := map[string]map[string]int{}
	for r, limit := range limits {
		q := quotas[r]
		if by[q.service] == nil {
			by[q.service] = map[string]int{}
		}
		by[q.service][q.key] = limit
	}
	for service, values := range by {
		lb, err := n.admin.LoadBalancer()
		testkit.Must(n.t, err)
		for name, x := range map[string]struct {
			c    *gophercloud.ServiceClient
			path []string
			key  string
		}{
			"compute": {n.admin.Compute, []string{"os-quota-sets", n.project}, "quota_set"}, "volume": {n.admin.Volume, []string{"os-quota-sets", n.project}, "quota_set"},
			"network": {n.admin.Network, []string{"quotas", n.project}, "quota"}, "balancer": {lb, []string{"lbaas", "quotas", n.project}, "quota"},
		} {
			if name != service {
				continue
			}
			resp, err := x.c.Put(ctx, x.c.ServiceURL(x.path...), map[string]any{x.key: values}, nil, &gophercloud.RequestOpts{OkCodes: []int{200, 202}})
			_, _, err = gophercloud.ParseResponse(resp, err)
			testkit.Must(n.t, err)
		}
	}
}

// readOnly checks that a provider has asked, and made nothing.
func readOnly(t *testing.T, calls *counter) {
	t.Helper()
	for _, c := range calls.seen {
		if !strings.HasPrefix(c, http.MethodGet) && c != "POST /v3/auth/tokens" {
			t.Errorf("a preflight made the call %s", c)
		}
	}
}

// TestQuotas has each quota be just enough, and then too small by one: the preflight says which, and by how much, before
// anything is made.
func TestQuotas(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	n := newTenant(ctx, t, "member", "load-balancer_member")
	doc := testDocument(t, "t4-quota", n.spec)
	p, calls := testProvider(t, doc, "t4-quota-0badcafe")
	if _, err := p.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	me := p.session.c
	who, err := me.WhoAmI()
	testkit.Must(t, err)
	check := preflight{Provider: p, c: me, me: who, want: wanted(doc), found: &findings{}}
	small, err := p.existing.Flavor(ctx, "v1.small")
	testkit.Must(t, err)
	need := demand(p, check.want, map[string]size{"v1.small": {vcpus: small.VCPUs, ramMiB: small.RAM}}, "10.81.0.0/24")
	have, err := check.allowances(ctx)
	testkit.Must(t, err)
	enough := map[quota.Resource]int{}
	for r := range quotas {
		if _, ok := have[r]; !ok {
			t.Errorf("the quota of %s can't be read", r)
		}
		enough[r] = have[r].Used + need[r]
	}
	n.set(ctx, enough)
	before := len(calls.seen)
	if err := p.Preflight(ctx, check.want); err != nil {
		t.Fatalf("all is just enough, and yet: %v", err)
	}
	t.Logf("a preflight makes %d calls", len(calls.seen)-before)
	for r := range quotas {
		n.set(ctx, map[quota.Resource]int{r: enough[r] - 1})
		err := p.Preflight(ctx, check.want)
		want := fmt.Sprintf("%s: %d needed, %d of %d used: 1 too few", r, need[r], have[r].Used, enough[r]-1)
		if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "too few") != 1 {
			t.Errorf("with one %s less, want %q, got: %v", r, want, err)
		}
		n.set(ctx, map[quota.Resource]int{r: enough[r]})
	}
	readOnly(t, calls)
}
