//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	cloudcalls "github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// cloudAPI reads the cloud's resources, independently of the marks that Naupegos gives them.
type cloudAPI struct {
	lists []list
	by    map[string]*gophercloud.ServiceClient
}

// list is a kind of resources, with the path and the key of its list.
type list struct {
	service, path, key, wrap string // wrap: the only key of the object around each item, if there is one
}

func login(ctx context.Context, b *bed.Bed) (*cloudAPI, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(b.CloudsYAML()), clouds.WithCloudName(bed.Cloud))
	if err != nil {
		return nil, err
	}
	auth.AllowReauth = true
	p, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, err
	}
	p.RetryFunc = readAgain
	var me struct{ User struct{ ID string } }
	if err := p.GetAuthResult().(interface{ ExtractInto(any) error }).ExtractInto(&me); err != nil {
		return nil, err
	}
	a := &cloudAPI{by: map[string]*gophercloud.ServiceClient{}, lists: []list{
		{"network", "networks", "networks", ""}, {"network", "subnets", "subnets", ""}, {"network", "routers", "routers", ""},
		{"network", "ports", "ports", ""}, {"network", "security-groups", "security_groups", ""}, {"network", "floatingips", "floatingips", ""},
		{"compute", "servers/detail", "servers", ""}, {"compute", "os-server-groups", "server_groups", ""}, {"compute", "os-keypairs", "keypairs", "keypair"},
		{"volume", "volumes/detail", "volumes", ""}, {"volume", "snapshots/detail", "snapshots", ""},
		{"balance", "lbaas/loadbalancers", "loadbalancers", ""}, {"balance", "lbaas/listeners", "listeners", ""}, {"balance", "lbaas/pools", "pools", ""},
		{"balance", "lbaas/healthmonitors", "healthmonitors", ""}, {"identity", "users/" + me.User.ID + "/application_credentials", "application_credentials", ""},
	}}
	for name, make := range map[string]func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		"network": openstack.NewNetworkV2, "compute": openstack.NewComputeV2, "volume": openstack.NewBlockStorageV3,
		"balance": openstack.NewLoadBalancerV2, "identity": openstack.NewIdentityV3, "image": openstack.NewImageV2,
	} {
		if a.by[name], err = make(p, endpoint); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// readAgain repeats a read twice if the cloud answers with an internal error: Octavia answers a list with 500 while a listed object is being
// deleted, as may happen with the other cluster's load balancer. Every other failure is final.
func readAgain(ctx context.Context, method, _ string, _ *gophercloud.RequestOpts, err error, failures uint) error {
	if failures > 2 || method != http.MethodGet || !gophercloud.ResponseCodeIs(err, http.StatusInternalServerError) {
		return err
	}
	return cloudcalls.Sleep(ctx, time.Second)
}

// thing is a resource in a list of the cloud.
type thing struct {
	kind, id, name string
	text           []byte // its item in the list, as JSON
}

func (t thing) String() string { return fmt.Sprintf("%s %s (%s)", t.kind, t.name, t.id) }

// of lists every resource that mentions the cluster's ID anywhere: in its name, tags, description or metadata.
func (a *cloudAPI) of(ctx context.Context, id string) ([]thing, error) {
	if id == "" {
		return nil, errors.New("the cluster has no ID")
	}
	var out []thing
	for _, l := range a.lists {
		all, err := a.list(ctx, l)
		if err != nil {
			return out, err
		}
		for _, t := range all {
			if strings.Contains(string(t.text), id) {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

func (a *cloudAPI) list(ctx context.Context, l list) ([]thing, error) {
	c := a.by[l.service]
	var answer map[string]json.RawMessage
	if _, err := c.Get(ctx, c.ServiceURL(strings.Split(l.path, "/")...), &answer, nil); err != nil {
		return nil, fmt.Errorf("list %s: %w", l.path, err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(answer[l.key], &items); err != nil {
		return nil, fmt.Errorf("list %s: %w", l.path, err)
	}
	var out []thing
	for _, text := range items {
		if l.wrap != "" {
			var in map[string]json.RawMessage
			if err := json.Unmarshal(text, &in); err != nil {
				return nil, fmt.Errorf("list %s: %w", l.path, err)
			}
			text = in[l.wrap]
		}
		var head struct{ ID, Name string }
		if err := json.Unmarshal(text, &head); err != nil {
			return nil, fmt.Errorf("list %s: %w", l.path, err)
		}
		out = append(out, thing{kind: l.key, id: head.ID, name: head.Name, text: text})
	}
	return out, nil
}

// network returns the ID of the only network of this name.
func (a *cloudAPI) network(ctx context.Context, name string) (string, error) {
	all, err := a.list(ctx, a.lists[0])
	if err != nil {
		return "", err
	}
	var ids []string
	for _, n := range all {
		if n.name == name && name != "" {
			ids = append(ids, n.id)
		}
	}
	if len(ids) != 1 {
		return "", fmt.Errorf("%d networks have the name %q", len(ids), name)
	}
	return ids[0], nil
}

// lookAlikes are foreign resources that a careless tool would take for the cluster's.
type lookAlikes struct {
	api *cloudAPI
	ids map[string]string // address of each, by its ID
}

// plantLookAlikes creates a network and a volume with the cluster's ID as a part of their names and marks. The end of the test deletes them.
func (a *cloudAPI) plantLookAlikes(t testing.TB, r *rig) *lookAlikes {
	t.Helper()
	l := &lookAlikes{api: a, ids: map[string]string{}}
	id := r.clusterID()
	for _, p := range []struct {
		service, path, one string
		body               any
	}{
		{"network", "networks", "network", map[string]any{"name": id + "x", "description": "naupegos-cluster=" + id + "x"}},
		{"volume", "volumes", "volume", map[string]any{"name": r.name + "-cp-1", "size": 1, "metadata": map[string]string{"naupegos_cluster": id + "x"}}},
	} {
		c := a.by[p.service]
		var made map[string]struct{ ID string }
		if _, err := c.Post(t.Context(), c.ServiceURL(p.path), map[string]any{p.one: p.body}, &made, &gophercloud.RequestOpts{OkCodes: []int{200, 201, 202}}); err != nil {
			t.Fatalf("plant a %s: %v", p.one, err)
		}
		url := c.ServiceURL(p.path, made[p.one].ID)
		l.ids[made[p.one].ID] = url
		t.Cleanup(func() {
			if _, err := c.Delete(context.Background(), url, &gophercloud.RequestOpts{OkCodes: []int{200, 202, 204}}); err != nil {
				t.Errorf("remove the look-alikes: %v", err)
			}
		})
	}
	return l
}

func (l *lookAlikes) owns(t thing) bool { return l != nil && l.ids[t.id] != "" }

// survive asserts that all of them still exist.
func (l *lookAlikes) survive(t testing.TB) {
	t.Helper()
	for _, url := range l.ids {
		if _, err := l.api.by["network"].Get(t.Context(), url, nil, nil); err != nil {
			t.Errorf("a look-alike was removed: %v", err)
		}
	}
}
