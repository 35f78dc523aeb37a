package openstack

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// place holds the properties of an existing network and its subnet; nil fields are those that the cloud does not report.
type place struct {
	Network struct {
		Name         string `json:"name"`
		Project      string `json:"project_id"`
		Up           *bool  `json:"admin_state_up"`
		PortSecurity *bool  `json:"port_security_enabled"`
	} `json:"network"`
	Subnet struct {
		Name    string          `json:"name"`
		CIDR    string          `json:"cidr"`
		Gateway json.RawMessage `json:"gateway_ip"`
		DHCP    *bool           `json:"enable_dhcp"`
	} `json:"subnet"`
}

// fact is a property of an existing network that prevents the creation or the operation of machines in it.
type fact struct {
	name    string
	is      func(place, preflight) bool
	refuses bool // otherwise it warns
	say     string
}

// facts lists every check of an existing network and its subnet; judge also checks their router. Other properties (MTU, tags, whether it is
// shared) do not matter to machines.
var facts = []fact{
	{"network down", func(p place, _ preflight) bool { return off(p.Network.Up) }, true,
		"network %n is switched off (admin_state_up is false): `openstack network set --enable` it"},
	{"port security off", func(p place, f preflight) bool { return off(p.Network.PortSecurity) && !f.allUnfiltered() }, true,
		"network %n has port security switched off, so that its ports take no security groups: have its owner run `openstack network set --enable-port-security`, name another network, or set portSecurity: false for all machines"},
	{"shared address in another project's network", func(p place, f preflight) bool {
		return f.sharesVIP() && p.Network.Project != "" && p.Network.Project != f.me.Project.ID && !f.me.Admin()
	}, true, "network %n belongs to another project, and by the usual policy only its owner lets the gateways' ports share an address (allowed address pairs): " +
		"have the owner give this project a network, or choose spec.endpoint.kind octavia or address"},
	{"DHCP off", func(p place, f preflight) bool { return off(p.Subnet.DHCP) && !f.allConfigDrives() }, true,
		"subnet %s gives out no addresses (DHCP is off): have its owner run `openstack subnet set --dhcp`, or set configDrive: true for all machines"},
	{"DHCP off with config drives", func(p place, f preflight) bool { return off(p.Subnet.DHCP) && f.allConfigDrives() }, false,
		"subnet %s gives out no addresses (DHCP is off): machines configure themselves from their config drives, which takes an image that can"},
	{"no gateway, floating IPs wanted", func(p place, f preflight) bool { return p.noGateway() && f.wantsFloating() }, true,
		"subnet %s has no gateway, and floating IPs reach machines through one: have its owner set it, or want no floating IPs"},
	{"no gateway", func(p place, f preflight) bool { return p.noGateway() && !f.wantsFloating() }, false,
		"subnet %s has no gateway: its machines reach nothing outside of it"},
}

func off(b *bool) bool { return b != nil && !*b }

// noGateway reports whether the subnet has no gateway; if the cloud does not report the field, noGateway assumes a gateway.
func (p place) noGateway() bool { return p.Subnet.Gateway != nil && p.gateway() == "" }

// gateway returns the subnet's gateway address; empty if it has none.
func (p place) gateway() string {
	return strings.Trim(strings.TrimPrefix(string(p.Subnet.Gateway), "null"), `"`)
}

// allConfigDrives reports whether every machine has a config drive.
func (f preflight) allConfigDrives() bool {
	return !slices.ContainsFunc(f.want.Machines, func(m provider.MachineSpec) bool {
		d := f.shape(m.Role, m.Pool).ConfigDrive
		return d == nil || !*d
	})
}

// allUnfiltered reports whether no machine's port has security groups.
func (f preflight) allUnfiltered() bool {
	return len(f.want.Machines) > 0 && !slices.ContainsFunc(f.want.Machines, func(m provider.MachineSpec) bool { return !f.shape(m.Role, m.Pool).Unfiltered() })
}

// site checks the existing security groups, networks and subnets that the document names beside the machines' network.
func (f preflight) site(ctx context.Context) error {
	if err := f.found.refusal(aboutNetworks, findSite(ctx, f.Provider)); err != nil {
		return err
	}
	if f.needsExternal() {
		_, err := f.existing.External(ctx)
		if err == nil {
			_, err = f.existing.FloatingSubnet(ctx)
		} else if fail.KindOf(err) == fail.Refused { // routing reports it
			err = nil
		}
		if err := f.found.refusal(aboutNetworks, err); err != nil {
			return err
		}
	}
	_, err := f.existing.BalancerClasses(ctx)
	return f.found.refusal(aboutNetworks, err)
}

// judge collects the problems of an existing network, its subnet, and the router that connects it to the outside.
func (f preflight) judge(ctx context.Context, sub subnets.Subnet) error {
	var p place
	if err := cloud.Get(ctx, f.c.Network, &p, "networks", sub.NetworkID); err != nil {
		return cloud.Wrap(err, "look at network %s", sub.NetworkID)
	}
	if err := cloud.Get(ctx, f.c.Network, &p, "subnets", sub.ID); err != nil {
		return cloud.Wrap(err, "look at subnet %s", sub.ID)
	}
	for _, x := range facts {
		if !x.is(p, f) {
			continue
		}
		say := strings.NewReplacer("%n", p.Network.Name, "%s", p.Subnet.Name+" ("+p.Subnet.CIDR+")").Replace(x.say)
		if x.refuses {
			f.found.add(aboutNetworks, "%s", say)
		} else {
			f.found.warn(say)
		}
	}
	gateway := p.gateway()
	if gateway == "" {
		return nil
	}
	at, err := cloud.Pages(ctx, ports.List(f.c.Network, ports.ListOpts{NetworkID: sub.NetworkID, FixedIPs: []ports.FixedIPOpts{{IPAddress: gateway}}}), ports.ExtractPorts)
	if err != nil {
		return cloud.Wrap(err, "look for the router of subnet %s", sub.Name)
	}
	for _, o := range at { // empty if the router belongs to another project, or is not Neutron's
		if strings.HasPrefix(o.DeviceOwner, "network:") && strings.Contains(o.DeviceOwner, "router") && addressIn(o, sub.ID) == gateway {
			return f.judgeRouter(ctx, o.DeviceID, "the router of subnet "+p.Subnet.Name)
		}
	}
	if p.Network.Project == f.me.Project.ID && f.wantsFloating() { // the network's owner sees all its ports
		f.found.add(aboutNetworks, "no router is at the gateway of subnet %s, and floating IPs reach machines through one: `openstack router add subnet ROUTER %s`", p.Subnet.Name, p.Subnet.Name)
	}
	return nil
}

// judgeRouter reports an existing router without an external gateway, or with one in another network than the floating IPs. A router that the
// cloud does not show is not judged.
func (f preflight) judgeRouter(ctx context.Context, id, what string) error {
	r, err := routers.Get(ctx, f.c.Network, id).Extract()
	if cloud.Untold(err) {
		return nil
	}
	if err != nil {
		return cloud.Wrap(err, "look at %s", what)
	}
	switch {
	case r.GatewayInfo.NetworkID != "" && !f.wantsFloating():
	case r.GatewayInfo.NetworkID != "":
		external, err := f.existing.External(ctx)
		if err != nil { // routing reports it
			return nil //nolint:nilerr // see above
		}
		if external != r.GatewayInfo.NetworkID {
			f.found.add(aboutNetworks, "%s leads to external network %s, and floating IPs are wanted of %s: name that as externalNetwork", what, r.GatewayInfo.NetworkID, external)
		}
	case f.wantsFloating():
		f.found.add(aboutNetworks, "%s has no external gateway, and floating IPs reach machines through it: `openstack router set --external-gateway NETWORK` it", what)
	default:
		f.found.warn(what + " has no external gateway: machines reach nothing outside of the networks it connects")
	}
	return nil
}

// routing checks that the network service supports what the cluster needs, and finds the external network if the cluster needs one.
func (f preflight) routing(ctx context.Context) error {
	if f.lacks.Has(cloud.KindGroups) {
		f.found.add(aboutNetworks, "the network service has no security groups, which alone protect the machines: have the cloud's operator enable them")
	}
	if f.needsExternal() && (f.lacks.Has(cloud.KindRouters) || f.lacks.Has(cloud.KindFloating)) {
		f.found.add(aboutNetworks, "the network service has no routers or floating IPs: put the machines into a network that is there (network.existing), without floating IPs")
		return nil
	}
	if !f.needsExternal() {
		return nil
	}
	_, err := f.existing.External(ctx)
	return f.found.refusal(aboutNetworks, err)
}
