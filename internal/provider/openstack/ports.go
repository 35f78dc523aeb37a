package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/portsecurity"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

const portsStep = "ports"

// newPort is the request for one port. gophercloud's type lacks the tags, which Neutron accepts on creation.
type newPort struct {
	Name                string              `json:"name"`
	Description         string              `json:"description"`
	NetworkID           string              `json:"network_id"`
	FixedIPs            []ports.IP          `json:"fixed_ips,omitempty"`
	SecurityGroups      *[]string           `json:"security_groups,omitempty"`
	AllowedAddressPairs []ports.AddressPair `json:"allowed_address_pairs,omitempty"`
	Tags                []string            `json:"tags,omitempty"`
	PortSecurity        *bool               `json:"port_security_enabled,omitempty"`
}

// perRequest bounds the number of ports in one request. The network service takes a while for each port, and Nova can start with the machines
// whose ports exist.
const perRequest = 10

// createPorts creates ports, many with one call, and caches them. A call creates all of its ports or none. Ports that a killed run requested
// and that appear only now count as created: only one port can have the subnet's gateway address.
func (p *Provider) createPorts(ctx context.Context, want []newPort) ([]ports.Port, error) {
	c, err := p.network(ctx)
	if err != nil {
		return nil, err
	}
	var out []ports.Port
	for some := range slices.Chunk(want, perRequest) {
		got, err := postPorts(ctx, c, some)
		if cloud.Status(err) == http.StatusBadRequest && strings.Contains(err.Error(), "tags") { // this Neutron can't tag on creation: step "ports" tags later
			for i := range some {
				some[i].Tags = nil
			}
			got, err = postPorts(ctx, c, some)
		}
		there := func(o ports.Port) bool {
			return slices.ContainsFunc(some, func(n newPort) bool { return n.Name == o.Name })
		}
		if _, ok, failed := cache.Late(ctx, p.known.ports, err, there); failed != nil {
			return out, failed
		} else if ok {
			got, err = p.known.ports.Filter(there), nil
		}
		if err != nil {
			p.known.ports.Invalidate()
			return out, cloud.Wrap(err, "make %s", cloud.Count(len(some), "port"))
		}
		p.known.ports.Keep(got...)
		out = append(out, got...)
	}
	return out, nil
}

func postPorts(ctx context.Context, c *gophercloud.ServiceClient, want []newPort) ([]ports.Port, error) {
	var r struct {
		Ports []ports.Port `json:"ports"`
	}
	resp, err := c.Post(ctx, c.ServiceURL("ports"), map[string]any{"ports": want}, &r, nil) //nolint:bodyclose // gophercloud closes it
	if _, _, err := gophercloud.ParseResponse(resp, err); err != nil {
		return nil, err
	}
	return r.Ports, nil
}

// portsOf lists the ports of a machine: one, or more if Neutron answered a request too late.
func (p *Provider) portsOf(machine string) []ports.Port {
	return p.known.ports.Filter(func(o ports.Port) bool { return portMachine(o) == machine })
}

// portOf returns the port of a machine.
func (p *Provider) portOf(machine string) (ports.Port, bool) {
	all := p.portsOf(machine)
	if len(all) == 0 {
		return ports.Port{}, false
	}
	port, _ := cache.Best(all, attached)
	return port, true
}

func attached(o ports.Port) int {
	if o.DeviceID != "" {
		return 1
	}
	return 0
}

// portMachine returns the name of a port's machine: from its tag or, before it is tagged, from its name.
func portMachine(o ports.Port) string {
	if m := marks.Tagged(o.Tags, marks.KeyMachine); m != "" {
		return m
	}
	if marks.Tagged(o.Tags, marks.KeyRole) != "" || strings.Contains(o.Name, "."+roleNIC+".") {
		return ""
	}
	return o.Name
}

// address returns the main address of a port: the one in the machines' subnet, else an IPv4 address. Neutron lists additional addresses, added
// by others or announced by routers, in any order.
func (p *Provider) address(o ports.Port) string {
	return addressIn(o, p.knownSubnet())
}

func addressIn(o ports.Port, subnet string) string {
	for _, fits := range []func(ports.IP) bool{
		func(ip ports.IP) bool { return subnet != "" && ip.SubnetID == subnet },
		func(ip ports.IP) bool { return !strings.Contains(ip.IPAddress, ":") },
		func(ports.IP) bool { return true },
	} {
		if i := slices.IndexFunc(o.FixedIPs, fits); i >= 0 {
			return o.FixedIPs[i].IPAddress
		}
	}
	return ""
}

// portsPlans returns the steps that create missing ports and correct those that differ from the wanted state, and maps each of their machines
// to the step that it waits for. Control-plane and gateway machines, on which others wait, come first and wait only for their own ports.
// Workers wait for all ports: ports that are requested while Nova creates many machines' take several times as long (bench/openstack, 53
// machines: 1.06 times what the services alone took, instead of 1.31 and more). The steps run one after another, because parallel requests for
// addresses of one subnet slow each other down.
func (p *Provider) portsPlans(want provider.Wanted) (steps []*plan.Step, of map[string]string) {
	var first, workers []provider.MachineSpec
	details := map[string]string{}
	for _, m := range want.Machines {
		if details[m.Name] = p.portDetail(m); details[m.Name] == "" {
			continue
		}
		if m.Role == provider.Worker {
			workers = append(workers, m)
		} else {
			first = append(first, m)
		}
	}
	of = map[string]string{}
	needs := []string{networkStep, groupsStep, vipStep}
	for _, some := range slices.Concat(slices.Collect(slices.Chunk(first, perRequest)), slices.Collect(slices.Chunk(workers, perRequest))) {
		s := &plan.Step{
			ID: portsStep, Action: plan.Create, Title: "create or update " + cloud.Count(len(some), "port"), Subject: "cluster", Needs: slices.Clone(needs),
			Reason: "machines have no port, or it differs from the document", Timeout: p.opts.Timeouts.Step,
			Run: func(ctx context.Context, progress plan.Progress) error { return p.ensurePorts(ctx, some, progress) },
		}
		if n := len(steps); n > 0 {
			s.ID, s.Needs = fmt.Sprintf("%s-%d", portsStep, n+1), append(s.Needs, steps[n-1].ID)
		}
		for _, m := range some {
			s.Details = append(s.Details, details[m.Name])
			of[m.Name] = s.ID
		}
		steps = append(steps, s)
	}
	for _, m := range workers {
		of[m.Name] = steps[len(steps)-1].ID
	}
	return steps, of
}

// portDetail describes how a machine's port differs from the wanted state; empty if it does not.
func (p *Provider) portDetail(m provider.MachineSpec) string {
	all := p.portsOf(m.Name)
	if len(all) == 0 {
		return "port of " + m.Name
	}
	port, _ := cache.Best(all, attached)
	switch {
	case len(all) > 1:
		return "remove a duplicate port of " + m.Name
	case !slices.Contains(port.Tags, p.n.Mark()):
		return "tags of the port of " + m.Name
	case !sameSet(port.SecurityGroups, portGroups(p, m)):
		return "security groups of " + m.Name
	case m.Role == provider.Gateway && !samePairs(port, p.pairs(m)):
		return "virtual address of " + m.Name
	}
	return ""
}

// pairs returns the additional addresses that a machine may use: the gateways share the virtual address. An unfiltered port may use any.
func (p *Provider) pairs(m provider.MachineSpec) []ports.AddressPair {
	if vip := p.vipAddress(); m.Role == provider.Gateway && vip != "" && !p.shape(m.Role, m.Pool).Unfiltered() {
		return []ports.AddressPair{{IPAddress: vip}}
	}
	return nil
}

func samePairs(o ports.Port, want []ports.AddressPair) bool {
	return slices.EqualFunc(o.AllowedAddressPairs, want, func(a, b ports.AddressPair) bool { return a.IPAddress == b.IPAddress })
}

// ensurePorts creates and corrects the ports of the given machines.
func (p *Provider) ensurePorts(ctx context.Context, want []provider.MachineSpec, progress plan.Progress) error {
	if err := cache.Fresh(ctx, p.known.ports, p.known.groups, p.known.subnets); err != nil {
		return err
	}
	if err := findSite(ctx, p); err != nil {
		return err
	}
	sub, err := p.subnet(ctx)
	if err != nil {
		return err
	}
	var missing []newPort
	for _, m := range want {
		if len(p.portsOf(m.Name)) == 0 {
			port := p.wantedPort(m, sub.NetworkID, sub.ID)
			if port.PortSecurity, err = portSecurity(ctx, p, m, sub.NetworkID); err != nil {
				return err
			}
			missing = append(missing, port)
		}
	}
	if len(missing) > 0 {
		progress.Status("requesting %s", cloud.Count(len(missing), "port"))
		if _, err := p.createPorts(ctx, missing); err != nil {
			return err
		}
	}
	progress.Status("tags, security groups and addresses of ports")
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cloud.MaxCalls)
	for _, m := range want { // new ports too: some Neutrons don't tag on creation
		g.Go(func() error { return p.mendPort(ctx, m) })
	}
	return g.Wait()
}

func (p *Provider) wantedPort(m provider.MachineSpec, network, subnet string) newPort {
	groups := portGroups(p, m)
	return newPort{
		Name: m.Name, Description: p.n.Mark(), NetworkID: network, FixedIPs: []ports.IP{{SubnetID: subnet, IPAddress: m.Address}},
		SecurityGroups: &groups, AllowedAddressPairs: p.pairs(m), Tags: p.n.Tags(m),
	}
}

// removeTwice removes duplicate ports.
func (p *Provider) removeTwice(ctx context.Context, c *gophercloud.ServiceClient, twice []ports.Port, of string) error {
	for _, o := range twice {
		if err := cache.Removed(p.known.ports, o.ID, ports.Delete(ctx, c, o.ID).ExtractErr(), "remove port %s of %s, which was made twice", o.ID, of); err != nil {
			return err
		}
	}
	return nil
}

// mendPort corrects a machine's port, and removes duplicates.
func (p *Provider) mendPort(ctx context.Context, m provider.MachineSpec) error {
	all := p.portsOf(m.Name)
	if len(all) == 0 {
		return fail.New(fail.NotReady, "its port was removed while it was made").At(m.Name)
	}
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	port, twice := cache.Best(all, attached)
	if err := p.removeTwice(ctx, c, twice, m.Name); err != nil {
		return err
	}
	groups, pairs := portGroups(p, m), p.pairs(m)
	if !sameSet(port.SecurityGroups, groups) || m.Role == provider.Gateway && !samePairs(port, pairs) {
		got, err := ports.Update(ctx, c, port.ID, portChange(p, m, port, groups, pairs)).Extract()
		if port, err = cache.Made(p.known.ports, got, err, "change the port of %s", m.Name); err != nil {
			return err
		}
	}
	tags, err := p.tag(ctx, "ports", port.ID, port.Tags, p.n.Tags(m))
	if err != nil {
		return err
	}
	if !slices.Equal(tags, port.Tags) {
		port.Tags = tags
		p.known.ports.Keep(port)
	}
	return nil
}

// portChange returns the request that gives a port the wanted security groups and additional addresses. A port that Neutron does not filter has neither,
// so the request turns port security off or on where the port has groups and should have none, or the other way round.
func portChange(p *Provider, m provider.MachineSpec, port ports.Port, groups []string, pairs []ports.AddressPair) ports.UpdateOptsBuilder {
	o := ports.UpdateOpts{SecurityGroups: &groups}
	unfiltered := p.shape(m.Role, m.Pool).Unfiltered()
	if m.Role == provider.Gateway || unfiltered {
		if pairs == nil {
			pairs = []ports.AddressPair{}
		}
		o.AllowedAddressPairs = &pairs
	}
	if unfiltered || len(port.SecurityGroups) == 0 {
		on := !unfiltered
		return portsecurity.PortUpdateOptsExt{UpdateOptsBuilder: o, PortSecurityEnabled: &on}
	}
	return o
}
