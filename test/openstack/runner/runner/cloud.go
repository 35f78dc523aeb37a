package runner

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/instanceactions"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
)

// cloud queries the bed's services. All lists cover every project.
type cloud struct {
	compute, network, balance, volume, image *gophercloud.ServiceClient

	roster roster
}

const callTimeout = time.Minute // for one request; the answers are small, but the bed shares its processors

func connect(ctx context.Context, o Options) (*cloud, error) {
	refuse := func(err error) error {
		return fail.Wrap(fail.Unreachable, err, "log in to cloud %s", o.Cloud).At(o.CloudsYAML).Do("check that the bed runs: make openstack-up")
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(clouds.WithLocations(o.CloudsYAML), clouds.WithCloudName(o.Cloud))
	if err != nil {
		return nil, refuse(err)
	}
	auth.AllowReauth = true
	p, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tlsConfig))
	if err != nil {
		return nil, refuse(err)
	}
	p.HTTPClient.Timeout = callTimeout
	c := &cloud{}
	for _, s := range []struct {
		client **gophercloud.ServiceClient
		make   func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&c.compute, openstack.NewComputeV2}, {&c.network, openstack.NewNetworkV2}, {&c.balance, openstack.NewLoadBalancerV2},
		{&c.volume, openstack.NewBlockStorageV3}, {&c.image, openstack.NewImageV2},
	} {
		if *s.client, err = s.make(p, endpoint); err != nil {
			return nil, refuse(err)
		}
	}
	return c, nil
}

// lastReboot returns the time of a server's last reboot action, or the zero time if it was never rebooted.
func (c *cloud) lastReboot(ctx context.Context, id string) (last time.Time, err error) {
	page, err := instanceactions.List(c.compute, id, nil).AllPages(ctx)
	if err != nil {
		return last, fail.Wrap(fail.Unreachable, err, "list what was done to server %s", id)
	}
	all, err := instanceactions.ExtractInstanceActions(page)
	if err != nil {
		return last, err
	}
	for _, a := range all {
		if a.Action == "reboot" && a.StartTime.After(last) {
			last = a.StartTime
		}
	}
	return last, nil
}

// places returns the place of every server with a port. If a server has several ports, the first in the order of IDs counts, because local
// machines have one link.
func (c *cloud) places(ctx context.Context) (map[string]place, error) {
	page, err := ports.List(c.network, ports.ListOpts{SortKey: "id", SortDir: "asc"}).AllPages(ctx)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "list Neutron's ports")
	}
	all, err := ports.ExtractPorts(page)
	if err != nil {
		return nil, err
	}
	out := map[string]place{}
	for _, p := range all {
		if _, known := out[p.DeviceID]; known || p.DeviceID == "" {
			continue
		}
		for _, ip := range p.FixedIPs {
			if a, err := netip.ParseAddr(ip.IPAddress); err == nil && a.Is4() {
				out[p.DeviceID] = place{Network: p.NetworkID, Address: a}
				break
			}
		}
	}
	return out, nil
}

// subnets returns the first IPv4 subnet of every internal network by network ID, and the subnets of the external networks.
func (c *cloud) subnets(ctx context.Context) (inside map[string]subnet, outside []subnet, err error) {
	type outer struct {
		networks.Network
		external.NetworkExternalExt
	}
	page, err := networks.List(c.network, networks.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Unreachable, err, "list Neutron's networks")
	}
	var nets []outer
	if err := networks.ExtractNetworksInto(page, &nets); err != nil {
		return nil, nil, err
	}
	if page, err = subnets.List(c.network, subnets.ListOpts{IPVersion: 4, SortKey: "id", SortDir: "asc"}).AllPages(ctx); err != nil {
		return nil, nil, fail.Wrap(fail.Unreachable, err, "list Neutron's subnets")
	}
	all, err := subnets.ExtractSubnets(page)
	if err != nil {
		return nil, nil, err
	}
	inside = map[string]subnet{}
	for _, s := range all {
		i := slices.IndexFunc(nets, func(n outer) bool { return n.ID == s.NetworkID })
		prefix, err := netip.ParsePrefix(s.CIDR)
		if i < 0 || err != nil {
			continue // its network was removed in the meantime
		}
		gateway, err := netip.ParseAddr(s.GatewayIP)
		if err != nil {
			gateway = netip.Addr{} // the subnet has no gateway
		}
		one := subnet{Network: s.NetworkID, Name: nets[i].Name, Prefix: prefix, Gateway: gateway}
		if nets[i].External {
			outside = append(outside, one)
		} else if _, known := inside[s.NetworkID]; !known {
			inside[s.NetworkID] = one
		}
	}
	return inside, outside, nil
}

func (c *cloud) floatings(ctx context.Context) ([]floating, error) {
	page, err := floatingips.List(c.network, floatingips.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "list Neutron's floating IPs")
	}
	all, err := floatingips.ExtractFloatingIPs(page)
	if err != nil {
		return nil, err
	}
	var out []floating
	for _, f := range all {
		from, err1 := netip.ParseAddr(f.FloatingIP)
		to, err2 := netip.ParseAddr(f.FixedIP)
		if err1 == nil && err2 == nil { // an error means that it is not associated
			out = append(out, floating{Address: from, Fixed: to})
		}
	}
	slices.SortFunc(out, func(a, b floating) int { return a.Address.Compare(b.Address) })
	return out, nil
}
