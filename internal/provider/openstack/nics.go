package openstack

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/internal/provider"
)

// roleNIC marks the additional ports of machines. Their names say which machine's they are: marks of the machine would make them its first port.
const roleNIC = "nic"

func nicName(p *Provider, machine string, i int) string {
	return p.n.Name(roleNIC, machine, strconv.Itoa(i+1))
}

// nicsOf lists the additional ports of a machine.
func nicsOf(p *Provider, machine string) []ports.Port {
	return p.known.ports.Filter(func(o ports.Port) bool { return strings.HasPrefix(o.Name, p.n.Name(roleNIC, machine)+".") })
}

// ensureNICs returns the additional ports of a machine without a server, in order. It takes over those of an interrupted run if they are as wanted, and
// removes the others.
func ensureNICs(ctx context.Context, p *Provider, m provider.MachineSpec) ([]servers.Network, error) {
	s := p.shape(m.Role, m.Pool)
	if len(s.Networks) == 0 && len(nicsOf(p, m.Name)) == 0 {
		return nil, nil
	}
	if err := p.known.ports.Fresh(ctx); err != nil {
		return nil, err
	}
	var out []servers.Network
	var missing []newPort
	var keep []string
	for i, n := range s.Networks {
		at, err := p.existing.Place(ctx, n)
		if err != nil {
			return nil, err
		}
		want := newPort{Name: nicName(p, m.Name, i), Description: p.n.Mark(), NetworkID: at.Network, Tags: p.n.RoleTags(roleNIC)}
		if at.Subnet != "" {
			want.FixedIPs = []ports.IP{{SubnetID: at.Subnet}}
		}
		switch groups := p.existing.Groups(s.SecurityGroups); {
		case at.Open:
			want.SecurityGroups = &[]string{}
		case s.Unfiltered():
			want.SecurityGroups, want.PortSecurity = &[]string{}, s.PortSecurity
		case len(groups) > 0:
			want.SecurityGroups = &groups
		}
		if have, ok := p.known.ports.Find(func(o ports.Port) bool { return fitsNIC(o, want) }); ok {
			keep = append(keep, have.ID)
			continue
		}
		missing = append(missing, want)
	}
	rest := slices.DeleteFunc(nicsOf(p, m.Name), func(o ports.Port) bool { return slices.Contains(keep, o.ID) })
	if err := p.removePorts(ctx, rest); err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		if _, err := p.createPorts(ctx, missing); err != nil {
			return nil, err
		}
	}
	for i := range s.Networks {
		name := nicName(p, m.Name, i)
		o, _ := p.known.ports.Find(func(o ports.Port) bool { return o.Name == name })
		tags, err := p.tag(ctx, "ports", o.ID, o.Tags, p.n.RoleTags(roleNIC)) // some Neutrons don't tag on creation
		if err != nil {
			return nil, err
		}
		o.Tags = tags
		p.known.ports.Keep(o)
		out = append(out, servers.Network{Port: o.ID})
	}
	return out, nil
}

// fitsNIC reports whether an existing port can serve as the wanted one.
func fitsNIC(o ports.Port, want newPort) bool {
	subnet := func(ip ports.IP) bool { return len(want.FixedIPs) == 0 || ip.SubnetID == want.FixedIPs[0].SubnetID }
	return o.Name == want.Name && o.NetworkID == want.NetworkID && o.DeviceID == "" && slices.ContainsFunc(o.FixedIPs, subnet) &&
		(want.SecurityGroups == nil || sameSet(o.SecurityGroups, *want.SecurityGroups))
}
