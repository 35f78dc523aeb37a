//go:build openstack

package openstack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/providertest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestConformanceOnTheRealServices takes a cluster with a gateway through its life in a real cloud, like TestConformance in a fake one, beside a
// foreign network with the cluster's name.
func TestConformanceOnTheRealServices(t *testing.T) {
	useCloud(t)
	const name, id = "t3-conform", "t3-conform-0badc0de"
	spec := strings.ReplaceAll(strings.ReplaceAll(smallSpec, "10.77.", "10.87."), "{kind: direct}", "{kind: gateways, gateways: {replicas: 1}}")
	spec = strings.ReplaceAll(spec, "controlPlane: {replicas: 1, machine: {floatingIP: true}}", "controlPlane: {replicas: 1}")
	doc := testDocument(t, name, spec)
	look, _ := testProvider(t, doc, id)
	c := testkit.Value(look.cloud(t.Context()))(t)
	foreign := testkit.Value(networks.Create(t.Context(), c.Network, networks.CreateOpts{Name: id, Description: "naupegos-cluster=" + id + "x"}).Extract())(t)
	t.Cleanup(func() { networks.Delete(context.Background(), c.Network, foreign.ID) })
	providertest.Run(t, providertest.Place{
		Provider: func(t testing.TB) provider.Provider { p, _ := testProvider(t, doc, id); return p },
		Want:     wanted(doc),
		Refused: func(t testing.TB) (provider.Provider, provider.Wanted) {
			bad := testDocument(t, name, strings.ReplaceAll(spec, "v1.small", "v1.none"))
			p, _ := testProvider(t, bad, id)
			return p, wanted(bad)
		},
		Things: func(t testing.TB) []string { return cloudThings(t, c, name) },
		Off: func(t testing.TB, machine string) {
			now, _ := testProvider(t, doc, id)
			m := testkit.Value(now.Machine(t.Context(), machine))(t)
			testkit.Must(t, servers.Stop(t.Context(), c.Compute, m.ID).ExtractErr())
			testkit.Until(t, 3*time.Minute, time.Second, testkit.That(machine+" is off", func() bool {
				s, err := servers.Get(t.Context(), c.Compute, m.ID).Extract()
				return err == nil && s.Status == serverShutoff && s.TaskState == ""
			}))
		},
		Once:  !testkit.Full(), // TestInfrastructureLife makes and removes a cluster at once
		Limit: 15 * time.Minute,
	})
}

// cloudThings lists networks, ports and servers whose names begin like a cluster's, whosever they are.
func cloudThings(t testing.TB, c *cloud.Cloud, name string) []string {
	t.Helper()
	var out []string
	add := func(kind, of string, words ...string) {
		if strings.HasPrefix(of, name) {
			out = append(out, kind+" "+of+" "+strings.Join(words, " "))
		}
	}
	nets, err := cloud.Pages(t.Context(), networks.List(c.Network, networks.ListOpts{}), networks.ExtractNetworks)
	testkit.Must(t, err)
	for _, n := range nets {
		add("network", n.Name, n.ID, n.Description)
	}
	all, err := cloud.Pages(t.Context(), ports.List(c.Network, ports.ListOpts{}), ports.ExtractPorts)
	testkit.Must(t, err)
	for _, o := range all {
		add("port", o.Name, o.ID, o.DeviceID)
	}
	list, err := cloud.Pages(t.Context(), servers.List(c.Compute, servers.ListOpts{}), servers.ExtractServers)
	testkit.Must(t, err)
	for _, s := range list {
		add("server", s.Name, s.ID, s.Status)
	}
	slices.Sort(out)
	return out
}
