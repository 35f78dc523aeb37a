//go:build openstack

package bed_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

const userData = "#cloud-config\nhostname: bed-test\n"

// client is a session of the bed's ordinary user.
type client struct {
	project                                   string
	compute, network, volume, image, balancer *gophercloud.ServiceClient
}

// resources holds the IDs of what the test created.
type resources struct {
	network, subnet, router, port, volume, server, floating, balancer string
}

func connect(t *testing.T, file string) *client {
	t.Helper()
	ctx := t.Context()
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(file), clouds.WithCloudName(bed.Cloud))
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{}
	for _, s := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&c.compute, openstack.NewComputeV2}, {&c.network, openstack.NewNetworkV2}, {&c.volume, openstack.NewBlockStorageV3},
		{&c.image, openstack.NewImageV2}, {&c.balancer, openstack.NewLoadBalancerV2},
	} {
		if *s.to, err = s.make(p, endpoint); err != nil {
			t.Fatal(err)
		}
	}
	result, ok := p.GetAuthResult().(tokens.CreateResult)
	if !ok {
		t.Fatalf("login gives a %T", p.GetAuthResult())
	}
	project, err := result.ExtractProject()
	if err != nil {
		t.Fatal(err)
	}
	c.project = project.ID
	return c
}

// makeAll creates a network with a router, a server with a root volume and a floating IP, and a load balancer in front of it.
func (c *client) makeAll(t *testing.T) *resources {
	t.Helper()
	ctx := t.Context()
	external := c.find(t, bed.ExternalNetwork)
	r := &resources{}
	r.network = testkit.Value(networks.Create(ctx, c.network, networks.CreateOpts{Name: "bed-test"}).Extract())(t).ID
	r.subnet = testkit.Value(subnets.Create(ctx, c.network, subnets.CreateOpts{NetworkID: r.network, Name: "bed-test", IPVersion: gophercloud.IPv4, CIDR: "10.96.1.0/24"}).Extract())(t).ID
	r.router = testkit.Value(routers.Create(ctx, c.network, routers.CreateOpts{Name: "bed-test", GatewayInfo: &routers.GatewayInfo{NetworkID: external}}).Extract())(t).ID
	testkit.Value(routers.AddInterface(ctx, c.network, r.router, routers.AddInterfaceOpts{SubnetID: r.subnet}).Extract())(t)
	port := testkit.Value(ports.Create(ctx, c.network, ports.CreateOpts{Name: "bed-test", NetworkID: r.network}).Extract())(t)
	r.port = port.ID
	image := testkit.Value(listImages(ctx, c, bed.Image))(t)[0].ID
	r.volume = testkit.Value(volumes.Create(ctx, c.volume, volumes.CreateOpts{Name: "bed-test", Size: 20, ImageID: image, VolumeType: bed.FastVolumeType}, nil).Extract())(t).ID
	c.waitVolume(t, r.volume, "available")
	r.server = testkit.Value(servers.Create(ctx, c.compute, servers.CreateOpts{
		Name: "bed-test", FlavorRef: c.flavor(t, "v1.small"), AvailabilityZone: "az2", UserData: []byte(userData), Networks: []servers.Network{{Port: r.port}},
		BlockDevice: []servers.BlockDevice{{UUID: r.volume, SourceType: servers.SourceVolume, DestinationType: servers.DestinationVolume, BootIndex: 0}},
	}, nil).Extract())(t).ID
	c.waitServer(t, r.server, "ACTIVE")
	r.floating = testkit.Value(floatingips.Create(ctx, c.network, floatingips.CreateOpts{FloatingNetworkID: external, PortID: r.port}).Extract())(t).ID
	c.makeBalancer(t, r, port.FixedIPs[0].IPAddress)
	return r
}

func (c *client) makeBalancer(t *testing.T, r *resources, member string) {
	t.Helper()
	ctx := t.Context()
	r.balancer = testkit.Value(loadbalancers.Create(ctx, c.balancer, loadbalancers.CreateOpts{Name: "bed-test", VipSubnetID: r.subnet}).Extract())(t).ID
	c.waitBalancer(t, r.balancer, "ACTIVE")
	l := testkit.Value(listeners.Create(ctx, c.balancer, listeners.CreateOpts{Name: "bed-test", LoadbalancerID: r.balancer, Protocol: listeners.ProtocolTCP, ProtocolPort: 6443}).Extract())(t)
	c.waitBalancer(t, r.balancer, "ACTIVE")
	p := testkit.Value(pools.Create(ctx, c.balancer, pools.CreateOpts{Name: "bed-test", ListenerID: l.ID, Protocol: pools.ProtocolTCP, LBMethod: pools.LBMethodRoundRobin}).Extract())(t)
	c.waitBalancer(t, r.balancer, "ACTIVE")
	testkit.Value(pools.CreateMember(ctx, c.balancer, p.ID, pools.CreateMemberOpts{Address: member, ProtocolPort: 6443, SubnetID: r.subnet}).Extract())(t)
	c.waitBalancer(t, r.balancer, "ACTIVE")
}

func (c *client) deleteAll(t *testing.T, r *resources) {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(loadbalancers.Delete(ctx, c.balancer, r.balancer, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr())
	c.waitBalancer(t, r.balancer, "")
	ok(floatingips.Delete(ctx, c.network, r.floating).ExtractErr())
	ok(servers.Delete(ctx, c.compute, r.server).ExtractErr())
	c.waitServer(t, r.server, "")
	ok(ports.Delete(ctx, c.network, r.port).ExtractErr())
	c.waitVolume(t, r.volume, "available")
	ok(volumes.Delete(ctx, c.volume, r.volume, nil).ExtractErr())
	c.waitVolume(t, r.volume, "")
	testkit.Value(routers.RemoveInterface(ctx, c.network, r.router, routers.RemoveInterfaceOpts{SubnetID: r.subnet}).Extract())(t)
	ok(routers.Delete(ctx, c.network, r.router).ExtractErr())
	ok(networks.Delete(ctx, c.network, r.network).ExtractErr()) // only an empty network can be deleted
}

func (c *client) find(t *testing.T, network string) string {
	t.Helper()
	page, err := networks.List(c.network, networks.ListOpts{Name: network}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := networks.ExtractNetworks(page)
	if err != nil || len(all) != 1 {
		t.Fatalf("networks %s: %v %v", network, all, err)
	}
	return all[0].ID
}

func listImages(ctx context.Context, c *client, name string) ([]images.Image, error) {
	page, err := images.List(c.image, images.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return images.ExtractImages(page)
}

func (c *client) flavor(t *testing.T, name string) string {
	t.Helper()
	page, err := flavors.ListDetail(c.compute, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := flavors.ExtractFlavors(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Name == name {
			return f.ID
		}
	}
	t.Fatalf("there is no flavor %s", name)
	return ""
}

func (c *client) waitServer(t *testing.T, id, want string) {
	t.Helper()
	wait(t, "server", want, func() (string, error) {
		s, err := servers.Get(t.Context(), c.compute, id).Extract()
		if err != nil {
			return "", err
		}
		return s.Status, nil
	})
}

func (c *client) waitVolume(t *testing.T, id, want string) {
	t.Helper()
	wait(t, "volume", want, func() (string, error) {
		v, err := volumes.Get(t.Context(), c.volume, id).Extract()
		if err != nil {
			return "", err
		}
		return v.Status, nil
	})
}

func (c *client) waitBalancer(t *testing.T, id, want string) {
	t.Helper()
	wait(t, "load balancer", want, func() (string, error) {
		b, err := loadbalancers.Get(t.Context(), c.balancer, id).Extract()
		if err != nil {
			return "", err
		}
		return b.ProvisioningStatus, nil
	})
}

// wait waits for a state; "" means deleted.
func wait(t *testing.T, what, want string, state func() (string, error)) {
	t.Helper()
	testkit.Until(t, 5*time.Minute, 300*time.Millisecond, func() error {
		got, err := state()
		switch {
		case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
			got = ""
		case err != nil:
			t.Fatal(err)
		}
		if got == want || got == "DELETED" && want == "" {
			return nil
		}
		err = fmt.Errorf("the %s is in state %q, want %q", what, got, want)
		if strings.EqualFold(got, "error") {
			t.Fatal(err)
		}
		return err
	})
}
