package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
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

// newPort is the request for one port. gophercloud's has no tags, which Neutron takes when ports are made.
type newPort struct {
	Name                string              `json:"name"`
	Description         string              `json:"description"`
	NetworkID           string              `json:"network_id"`
	FixedIPs            []ports.IP          `json:"fixed_ips,omitempty"`
	SecurityGroups      *[]string           `json:"security_groups,omitempty"`
	AllowedAddressPairs []ports.AddressPair `json:"allowed_address_pairs,omitempty"`
	Tags                []string            `json:"tags,omitempty"`
}

// perRequest bounds how many ports are asked for in one request. A network service takes a while for each, and Nova can begin with the
// machines that have theirs.
const perRequest = 10

// createPorts makes ports, many with one call, and keeps them. A call makes all of its ports or none. Those that a run that was killed had
// asked for, and that came about only now, count as made: there can be one port with the subnet's gateway as its address.
func (p *Provider) createPorts(ctx context.Context, want []newPort) ([]ports.Port, error) {
	c, err := p.network(ctx)
	if err != nil {
		return nil, err
	}
	var out []ports.Port
	for some := range slices.Chunk(want, perRequest) {
		got, err := postPorts(ctx, c, some)
		if cloud.Status(err) == http.StatusBadRequest && strings.Contains(err.Error(), "tags") { // a Neutron that can't tag what it makes: "ports" does it after
			for i := range some {
				some[i].Tags = nil
			}
			got, err = postPorts(ctx, c, some)
		}
		there := func(o ports.Port) bool {
			return slices.ContainsFunc(some, func(n newPort) bool { return n.Name == o.Name })
		}
		if _, ok, failed := late(ctx, p.known.ports, err, there); failed != nil {
			return out, failed
		} else if ok {
			got, err = p.known.ports.Filter(there), nil
		}
		if err != nil {
			p.known.ports.Invalidate()
			return out, cloud.Wrap(err, "make %s", count(len(some), "port"))
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

func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// portsOf lists the ports of a machine: one, unless Neutron answered a request too late.
func (p *Provider) portsOf(machine string) []ports.Port {
	return p.known.ports.Filter(func(o ports.Port) bool { return portMachine(o) == machine })
}

// portOf returns the port of a machine.
func (p *Provider) portOf(machine string) (ports.Port, bool) {
	all := p.portsOf(machine)
	if len(all) == 0 {
		return ports.Port{}, false
	}
	port, _ := best(all, attached)
	return port, true
}

func attached(o ports.Port) int {
	if o.DeviceID != "" {
		return 1
	}
	return 0
}

// portMachine tells whose port it is: the tag says so, and before there is one, the name.
func portMachine(o ports.Port) string {
	if m := marks.Tagged(o.Tags, marks.KeyMachine); m != "" {
		return m
	}
	if marks.Tagged(o.Tags, marks.KeyRole) != "" {
		return ""
	}
	return o.Name
}

// address returns the address of a port that counts: that in the machines' subnet, else one of IPv4. Neutron lists those that others add, or
// that routers announce, in any order.
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

// knownSubnet is the ID of the machines' subnet as far as it is known without asking.
func (p *Provider) knownSubnet() string {
	if p.spec().Network.Existing == "" {
		s, _ := p.known.subnets.Find(anything)
		return s.ID
	}
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.subnet != nil {
		return p.lookups.subnet.ID
	}
	return ""
}

// portsPlans returns the steps that make the ports of all machines that have none, and change those that are not as wanted; and for
// each of these machines, the ID of the step that it waits for. The machines that others wait for come first, and wait for their own
// ports only; workers wait for everybody's: ports that are asked for while Nova asks for many machines' take several times as long
// (bench/openstack, 53 machines: 1.06 times what the services alone took, instead of 1.31 and more). The steps follow each other: requests
// for addresses of one subnet only stand in each other's way.
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
			ID: portsStep, Action: plan.Create, Title: "create or update " + count(len(some), "port"), Subject: "cluster", Needs: slices.Clone(needs),
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

// portDetail says what of a machine's port is not as wanted; empty: nothing.
func (p *Provider) portDetail(m provider.MachineSpec) string {
	all := p.portsOf(m.Name)
	if len(all) == 0 {
		return "port of " + m.Name
	}
	port, _ := best(all, attached)
	switch {
	case len(all) > 1:
		return "remove a duplicate port of " + m.Name
	case !slices.Contains(port.Tags, p.n.Mark()):
		return "tags of the port of " + m.Name
	case !slices.Equal(port.SecurityGroups, p.groupIDs(m.Role)):
		return "security group of " + m.Name
	case m.Role == provider.Gateway && !samePairs(port, p.pairs(m.Role)):
		return "virtual address of " + m.Name
	}
	return ""
}

// pairs are the addresses that a machine of a role may use besides its own: the gateways share the virtual one.
func (p *Provider) pairs(role provider.Role) []ports.AddressPair {
	if vip := p.vipAddress(); role == provider.Gateway && vip != "" {
		return []ports.AddressPair{{IPAddress: vip}}
	}
	return nil
}

func samePairs(o ports.Port, want []ports.AddressPair) bool {
	return slices.EqualFunc(o.AllowedAddressPairs, want, func(a, b ports.AddressPair) bool { return a.IPAddress == b.IPAddress })
}

// ensurePorts is the step of some machines' ports.
func (p *Provider) ensurePorts(ctx context.Context, want []provider.MachineSpec, progress plan.Progress) error {
	if err := cache.Fresh(ctx, p.known.ports, p.known.groups, p.known.subnets); err != nil {
		return err
	}
	sub, err := p.subnet(ctx)
	if err != nil {
		return err
	}
	var missing []newPort
	for _, m := range want {
		if len(p.portsOf(m.Name)) == 0 {
			missing = append(missing, p.wantedPort(m, sub.NetworkID, sub.ID))
		}
	}
	if len(missing) > 0 {
		progress.Status("requesting %s", count(len(missing), "port"))
		if _, err := p.createPorts(ctx, missing); err != nil {
			return err
		}
	}
	progress.Status("tags, security groups and addresses of ports")
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cloud.MaxCalls)
	for _, m := range want { // new ones too: not every Neutron tags what it makes in the same call
		g.Go(func() error { return p.mendPort(ctx, m) })
	}
	return g.Wait()
}

func (p *Provider) wantedPort(m provider.MachineSpec, network, subnet string) newPort {
	groups := p.groupIDs(m.Role)
	return newPort{
		Name: m.Name, Description: p.n.Mark(), NetworkID: network, FixedIPs: []ports.IP{{SubnetID: subnet, IPAddress: m.Address}},
		SecurityGroups: &groups, AllowedAddressPairs: p.pairs(m.Role), Tags: p.n.Tags(m),
	}
}

// removeTwice removes ports of something that has another one.
func (p *Provider) removeTwice(ctx context.Context, c *gophercloud.ServiceClient, twice []ports.Port, of string) error {
	for _, o := range twice {
		if err := removed(p.known.ports, o.ID, ports.Delete(ctx, c, o.ID).ExtractErr(), "remove port %s of %s, which was made twice", o.ID, of); err != nil {
			return err
		}
	}
	return nil
}

// mendPort makes a machine's port what it should be, and removes others.
func (p *Provider) mendPort(ctx context.Context, m provider.MachineSpec) error {
	all := p.portsOf(m.Name)
	if len(all) == 0 {
		return fail.New(fail.NotReady, "its port was removed while it was made").At(m.Name)
	}
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	port, twice := best(all, attached)
	if err := p.removeTwice(ctx, c, twice, m.Name); err != nil {
		return err
	}
	groups, pairs := p.groupIDs(m.Role), p.pairs(m.Role)
	if !slices.Equal(port.SecurityGroups, groups) || m.Role == provider.Gateway && !samePairs(port, pairs) {
		o := ports.UpdateOpts{SecurityGroups: &groups}
		if m.Role == provider.Gateway {
			o.AllowedAddressPairs = &pairs
		}
		got, err := ports.Update(ctx, c, port.ID, o).Extract()
		if port, err = made(p.known.ports, got, err, "change the port of %s", m.Name); err != nil {
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
