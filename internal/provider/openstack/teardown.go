package openstack

import (
	"context"
	"errors"
	"fmt"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

// everyServerOf lists the servers of a machine, including those in deletion.
func (p *Provider) everyServerOf(machine string) []servers.Server {
	return p.known.servers.Filter(func(s servers.Server) bool {
		return s.Metadata[marks.Underscored(marks.KeyMachine)] == machine && s.Status != serverDeleted
	})
}

// destroyRest removes the cluster's known resources other than machines and load balancer, each one after the resources that use it.
func (p *Provider) destroyRest(ctx context.Context, progress plan.Progress) error {
	k := &p.known
	if err := cache.Fresh(ctx, k.all()...); err != nil {
		return err
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	progress.Status("DNS record, floating IPs and volumes")
	if err := p.dns.Remove(ctx); err != nil {
		return err
	}
	if err := p.floating.Adopt(ctx); err != nil {
		return err
	}
	if err := p.floating.Remove(ctx, k.floating.All()); err != nil {
		return err
	}
	if err := p.removeStray(ctx, progress); err != nil {
		return err
	}
	if err := p.floating.Release(ctx); err != nil {
		return err
	}
	progress.Status("ports")
	if err := p.detachRouter(ctx, c.Network); err != nil {
		return err
	}
	if err := p.removePorts(ctx, k.ports.All()); err != nil {
		return err
	}
	progress.Status("server groups and keypair")
	if err := p.removePlacement(ctx, c.Compute); err != nil {
		return err
	}
	return p.removeNetwork(ctx, c.Network, progress)
}

// removeStray removes the volumes without a server. If a previously unknown server holds one, it removes that machine too.
func (p *Provider) removeStray(ctx context.Context, progress plan.Progress) error {
	err := p.volumes.Remove(ctx, p.known.volumes.Filter(p.isStray), progress)
	var held *volume.HeldError
	if !errors.As(err, &held) {
		return err
	}
	if err := p.wipe(ctx, held.Machine, progress); err != nil {
		return err
	}
	return p.removeStray(ctx, progress)
}

// isStray reports whether the machine that a root volume belongs to has no server.
func (p *Provider) isStray(v volumes.Volume) bool {
	_, ok := p.serverOf(v.Metadata[marks.Underscored(marks.KeyMachine)])
	return !ok
}

// detachRouter detaches the router from the network; Neutron then removes its port.
func (p *Provider) detachRouter(ctx context.Context, c *gophercloud.ServiceClient) error {
	for _, o := range p.known.ports.Filter(p.isRouterPort) {
		if o.DeviceID == "" {
			continue // never attached: an ordinary port
		}
		_, err := routers.RemoveInterface(ctx, c, o.DeviceID, routers.RemoveInterfaceOpts{PortID: o.ID}).Extract()
		if err := cache.Removed(p.known.ports, o.ID, err, "take router %s out of the network", o.DeviceID); err != nil {
			return cloud.Still(err, func() string { return "router " + o.DeviceID + " still serves a floating IP in the network" })
		}
	}
	return nil
}

func (p *Provider) removePlacement(ctx context.Context, c *gophercloud.ServiceClient) error {
	for _, g := range p.known.serverGroups.All() {
		err := servergroups.Delete(ctx, c, g.ID).ExtractErr()
		if err := cache.Removed(p.known.serverGroups, g.ID, err, "remove server group %s", g.Name); err != nil {
			return err
		}
	}
	for _, kp := range p.known.keypairs.All() {
		err := keypairs.Delete(ctx, c, kp.Name, nil).ExtractErr()
		if err := cache.Removed(p.known.keypairs, kp.Name, err, "remove keypair %s", kp.Name); err != nil {
			return err
		}
	}
	return nil
}

// removeNetwork removes security groups, router, subnet and network, but never those that the document names as existing.
func (p *Provider) removeNetwork(ctx context.Context, c *gophercloud.ServiceClient, progress plan.Progress) error {
	k := &p.known
	for _, g := range k.groups.All() {
		progress.Status("security group %s", g.Name)
		err := cache.Removed(k.groups, g.ID, groups.Delete(ctx, c, g.ID).ExtractErr(), "remove security group %s", g.Name)
		if err != nil {
			return cloud.Still(err, func() string { return p.usedBy(ctx, c, "security group "+g.Name, query{group: g.ID}) })
		}
	}
	for _, r := range k.routers.All() {
		progress.Status("router %s", r.Name)
		err := cache.Removed(k.routers, r.ID, routers.Delete(ctx, c, r.ID).ExtractErr(), "remove router %s", r.Name)
		if err != nil {
			return cloud.Still(err, func() string { return p.usedBy(ctx, c, "router "+r.Name, query{device: r.ID}) })
		}
	}
	for _, s := range k.subnets.All() {
		progress.Status("subnet %s", s.CIDR)
		err := cache.Removed(k.subnets, s.ID, subnets.Delete(ctx, c, s.ID).ExtractErr(), "remove subnet %s", s.CIDR)
		if err != nil {
			return cloud.Still(err, func() string { return p.usedBy(ctx, c, "subnet "+s.CIDR, query{network: s.NetworkID}) })
		}
	}
	for _, n := range k.networks.All() {
		progress.Status("network %s", n.Name)
		err := cache.Removed(k.networks, n.ID, networks.Delete(ctx, c, n.ID).ExtractErr(), "remove network %s", n.Name)
		if err != nil {
			return cloud.Still(err, func() string { return p.usedBy(ctx, c, "network "+n.Name, query{network: n.ID}) })
		}
	}
	return nil
}

// usedBy describes what blocks the removal of a resource: "network demo is still used by port x (compute:nova …)".
func (p *Provider) usedBy(ctx context.Context, c *gophercloud.ServiceClient, what string, q query) string {
	o := ports.ListOpts{NetworkID: q.network, DeviceID: q.device}
	if q.group != "" {
		o.SecurityGroups = []string{q.group}
	}
	all, err := cloud.Pages(ctx, ports.List(c, o), ports.ExtractPorts)
	if err != nil || len(all) == 0 {
		return ""
	}
	first := all[0]
	for _, port := range all {
		if port.DeviceOwner != "network:dhcp" && port.DeviceOwner != "network:distributed" { // removed with the network
			first = port
			break
		}
	}
	more := ""
	if len(all) > 1 {
		more = fmt.Sprintf(" and %d more", len(all)-1)
	}
	name := first.ID
	if first.Name != "" {
		name = first.Name + " (" + first.ID + ")"
	}
	if first.DeviceOwner != "" {
		name += ", owner " + first.DeviceOwner + " " + first.DeviceID
	}
	return what + " is still used by port " + name + more
}
