//go:build openstack

package openstack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// given is a network with two subnets, one of which leads to the outside by a router, as users have made before there is a cluster.
type given struct {
	c               *cloud.Cloud
	network, router string
	subnets         []string
}

// give makes all that, under one name, as long as the test lives.
func give(ctx context.Context, t *testing.T, c *cloud.Cloud, name, external string) given {
	t.Helper()
	g := given{c: c}
	undo := func(what string, do func(context.Context) error) {
		t.Cleanup(func() {
			if err := do(context.Background()); err != nil {
				t.Errorf("remove the %s: %v", what, err)
			}
		})
	}
	net, err := networks.Create(ctx, c.Network, networks.CreateOpts{Name: name, Description: "a user's"}).Extract()
	testkit.Must(t, err)
	g.network = net.ID
	undo("network", func(ctx context.Context) error { return networks.Delete(ctx, c.Network, net.ID).ExtractErr() })
	for _, cidr := range []string{"10.82.1.0/24", "10.82.2.0/24"} {
		s, err := subnets.Create(ctx, c.Network, subnets.CreateOpts{NetworkID: net.ID, CIDR: cidr, IPVersion: 4, Name: cidr}).Extract()
		testkit.Must(t, err)
		g.subnets = append(g.subnets, s.ID)
	}
	r, err := routers.Create(ctx, c.Network, routers.CreateOpts{Name: name, GatewayInfo: &routers.GatewayInfo{NetworkID: external}}).Extract()
	testkit.Must(t, err)
	g.router = r.ID
	undo("router", func(ctx context.Context) error { return routers.Delete(ctx, c.Network, r.ID).ExtractErr() })
	inner := g.subnets[1]
	_, err = routers.AddInterface(ctx, c.Network, r.ID, routers.AddInterfaceOpts{SubnetID: inner}).Extract()
	testkit.Must(t, err)
	undo("router's interface", func(ctx context.Context) error {
		_, err := routers.RemoveInterface(ctx, c.Network, r.ID, routers.RemoveInterfaceOpts{SubnetID: inner}).Extract()
		return err
	})
	_, err = attributestags.ReplaceAll(ctx, c.Network, "networks", net.ID, attributestags.ReplaceAllOpts{Tags: []string{"mine"}}).Extract()
	testkit.Must(t, err)
	return g
}

// look returns everything about others' resources but revisions and times.
func (g given) look(ctx context.Context, t *testing.T) string {
	t.Helper()
	var b strings.Builder
	n, err := networks.Get(ctx, g.c.Network, g.network).Extract()
	testkit.Must(t, err)
	fmt.Fprintln(&b, n.Name, n.Description, n.Tags, n.AdminStateUp, slices.Sorted(slices.Values(n.Subnets)))
	for _, id := range g.subnets {
		s, err := subnets.Get(ctx, g.c.Network, id).Extract()
		testkit.Must(t, err)
		fmt.Fprintln(&b, s.Name, s.Description, s.Tags, s.CIDR, s.GatewayIP, s.DNSNameservers, s.AllocationPools, s.HostRoutes)
	}
	r, err := routers.Get(ctx, g.c.Network, g.router).Extract()
	testkit.Must(t, err)
	fmt.Fprintln(&b, r.Name, r.Description, r.Tags, r.AdminStateUp, r.GatewayInfo.NetworkID, r.GatewayInfo.ExternalFixedIPs, r.Routes)
	for _, o := range []ports.ListOpts{{NetworkID: g.network}, {DeviceID: g.router}} {
		all, err := cloud.Pages(ctx, ports.List(g.c.Network, o), ports.ExtractPorts)
		testkit.Must(t, err)
		fmt.Fprintln(&b, slices.Sorted(slices.Values(texts(all, func(o ports.Port) string { return o.ID }))))
	}
	return b.String()
}

// TestExisting: a cluster in an existing network, or behind an existing router, leaves it unchanged. Its machine also has an unusual shape.
func TestExisting(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	const name, id = "t3-given", "t3-given-0badc0de"
	spec := strings.NewReplacer("rootVolumeGiB: 1", "rootVolumeGiB: 1, rootVolumeType: "+bed.FastVolumeType+", configDrive: true",
		"replicas: 1, machine", "replicas: 1, schedulable: true, machine", "  workers:\n    - {name: w, replicas: 1}\n", "").Replace(smallSpec)
	first, _ := testProvider(t, testDocument(t, name, spec), id)
	external, err := first.existing.External(ctx)
	testkit.Must(t, err)
	g := give(ctx, t, first.session.c, id+"x", external)
	before := g.look(ctx, t)
	for what, network := range map[string]string{
		"network": "{existing: " + id + "x, subnet: " + g.subnets[1] + "}",
		"router":  "{cidr: 10.83.0.0/24, router: " + id + "x}",
	} {
		t.Run(what, func(t *testing.T) {
			doc := testDocument(t, name, strings.Replace(spec, "{cidr: 10.77.0.0/24}", network, 1))
			clean(t, doc, id)
			p, _ := testProvider(t, doc, id, patient)
			_, err := p.Observe(ctx)
			testkit.Must(t, err)
			testkit.Must(t, p.Preflight(ctx, wanted(doc)))
			testkit.Must(t, apply(ctx, p))
			nothingToDo(ctx, t, doc, id)
			if during := g.look(ctx, t); during == before {
				t.Error("nothing of the cluster is to be seen there")
			}

			p, _ = testProvider(t, doc, id, patient)
			_, err = p.Observe(ctx)
			testkit.Must(t, err)
			machine := name + "-cp-1"
			port, _ := p.portOf(machine)
			if in := port.NetworkID == g.network && port.FixedIPs[0].SubnetID == g.subnets[1]; in != (what == "network") {
				t.Errorf("the machine is in network %s at %+v", port.NetworkID, port.FixedIPs)
			}
			if s, _ := p.serverOf(machine); !s.ConfigDrive {
				t.Error("the server has no config drive")
			}
			if v := p.volumes.RootsOf(machine); len(v) != 1 || v[0].VolumeType != bed.FastVolumeType {
				t.Errorf("the root volume is %+v", v)
			}

			testkit.Must(t, destroy(ctx, p))
			isEmpty(ctx, t, doc, id)
			if after := g.look(ctx, t); after != before {
				t.Errorf("it was\n%s\nand is\n%s", before, after)
			}
		})
	}
}
