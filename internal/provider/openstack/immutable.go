package openstack

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/internal/fail"
)

// checkLasting refuses changes of fields that are fixed for the life of a cluster: the place of its machines, their way out, and the carrier
// of the API's address. Otherwise one part would keep the old setting while another one is made with the new.
func (p *Provider) checkLasting(ctx context.Context) error {
	for _, check := range []func(context.Context) error{p.checkEndpointKind, p.checkBalancer, p.checkPlace, p.checkRouter, p.checkExternal} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return p.volumes.Check()
}

// lasts returns the refusal to change a field.
func lasts(field, format string, args ...any) error {
	return fail.New(fail.Refused, format, args...).At(field).Do("set it back; what you want needs another cluster")
}

func (p *Provider) checkEndpointKind(context.Context) error {
	const field = "spec.endpoint.kind"
	kind := p.opts.Cluster.Spec.Endpoint.Kind
	if b := p.balancer.Seen(); b != nil && p.octavia() == nil {
		return lasts(field, "the API is reached through load balancer %s, and the kind can't become %s", b.LB.Name, kind)
	}
	if port, ok := p.vipPort(); ok && !p.sharesVIP() {
		return lasts(field, "the API is reached at %s, which the gateways share, and the kind can't become %s", p.address(port), kind)
	}
	return nil
}

// checkBalancer compares the load balancer with those of the document's settings that Octavia can't change.
func (p *Provider) checkBalancer(ctx context.Context) error {
	field, why, err := p.balancer.Fixed(ctx)
	if err == nil && field != "" {
		err = lasts(field, "%s", why)
	}
	return err
}

// checkPlace compares the current network and subnet of the machines with the ones that the document selects.
func (p *Provider) checkPlace(ctx context.Context) error {
	const field = "spec.provider.openstack.network"
	there := p.known.ports.Filter(func(o ports.Port) bool { return portMachine(o) != "" && len(o.FixedIPs) > 0 })
	if len(there) == 0 {
		return nil
	}
	want, err := p.subnet(ctx)
	switch {
	case fail.KindOf(err) == fail.NotReady: // the cluster's own network does not exist
		return lasts(field+".existing", "the machines are in network %s, and can't move to one made for the cluster", there[0].NetworkID)
	case err != nil:
		return err
	}
	for _, o := range there {
		if o.NetworkID != want.NetworkID {
			return lasts(field+".existing", "machine %s is in network %s, and can't move to network %s", portMachine(o), o.NetworkID, want.NetworkID)
		}
		if !slices.ContainsFunc(o.FixedIPs, func(ip ports.IP) bool { return ip.SubnetID == want.ID }) {
			return lasts(field+".subnet", "machine %s is in subnet %s, and can't move to subnet %s", portMachine(o), o.FixedIPs[0].SubnetID, want.ID)
		}
	}
	return nil
}

// checkRouter compares the router of the cluster's own network with the one that the document names.
func (p *Provider) checkRouter(ctx context.Context) error {
	port, ok := p.known.ports.Find(p.isRouterPort)
	if !ok || port.DeviceID == "" || p.spec().Network.Existing != "" {
		return nil
	}
	const field = "spec.provider.openstack.network.router"
	if p.ownRouter() {
		if _, own := p.known.routers.Find(func(r routers.Router) bool { return r.ID == port.DeviceID }); !own {
			return lasts(field, "the machines' network is attached to router %s, and can't move to one made for the cluster", port.DeviceID)
		}
		return nil
	}
	want, err := p.existing.Router(ctx)
	if err == nil && want != port.DeviceID {
		err = lasts(field, "the machines' network is attached to router %s, and can't move to router %s", port.DeviceID, p.spec().Network.Router)
	}
	return err
}

// checkExternal compares the external network of the router and floating IPs with the one that the document names. If the document names none,
// they stay in their network.
func (p *Provider) checkExternal(ctx context.Context) error {
	var have []string
	for _, r := range p.known.routers.All() {
		have = append(have, r.GatewayInfo.NetworkID)
	}
	for _, f := range p.known.floating.All() {
		have = append(have, f.FloatingNetworkID)
	}
	if len(have) == 0 || p.spec().ExternalNetwork == "" {
		return nil
	}
	want, err := p.existing.External(ctx)
	if err != nil {
		return err
	}
	for _, id := range have {
		if id != "" && id != want {
			return lasts("spec.provider.openstack.externalNetwork", "the cluster has its way out and its floating IPs in network %s, and can't move to %s",
				id, p.spec().ExternalNetwork)
		}
	}
	return nil
}
