package balancer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/quota"
)

// frontWant is one wanted port of the load balancer. Its listener, pool and monitor have the same name.
type frontWant struct {
	name    string
	port    int      // listening port
	allowed []string // networks that may connect, sorted; none: all
	spread  pools.LBMethod
	idle    int    // milliseconds until an idle connection is cut
	monitor string // Octavia's type
	to      int    // the members' port
	role    provider.Role
}

// member is one machine behind a port.
type member struct {
	name, address string
	port          int
}

// Timeouts in milliseconds after which an idle connection is cut. A watch of the API may be silent for a long time, and Octavia's default of
// 50 seconds would end it. A member is dead after two checks without an answer.
const (
	apiIdle        = 60 * 60 * 1000
	ingressIdle    = 10 * 60 * 1000
	monitorDelay   = 3 // seconds between two checks
	monitorTimeout = 2 // seconds for an answer
	monitorTries   = 2
)

// Names of the fronts, as parts of the names of listeners, pools and monitors.
const (
	FrontAPI   = "api"
	FrontHTTP  = "ingress-http"
	FrontHTTPS = "ingress-https"
)

// frontNames lists the full names of all possible fronts.
func (k *Keeper) frontNames() []string {
	return []string{k.opts.Names.Name(FrontAPI), k.opts.Names.Name(FrontHTTP), k.opts.Names.Name(FrontHTTPS)}
}

// wantedFronts lists the wanted fronts of the load balancer, the API's first. cidr is the machines' own network.
func (k *Keeper) wantedFronts(cidr string) []frontWant {
	o := k.opts.Octavia
	if o == nil {
		return nil
	}
	api := frontWant{
		name: k.opts.Names.Name(FrontAPI), port: k.opts.Port, to: v1alpha1.APIServerPort, idle: apiIdle,
		monitor: monitors.TypeTLSHELLO, role: provider.ControlPlane,
	}
	if o.Monitor == "tcp" || o.OVN() { // OVN supports no TLS check
		api.monitor = monitors.TypeTCP
	}
	if len(o.AllowedCIDRs) > 0 && !o.OVN() { // nodes reach the API through the load balancer too; for OVN, package firewall limits access
		api.allowed = sorted(append([]string{cidr}, o.AllowedCIDRs...))
	}
	out := []frontWant{api}
	if i := o.Ingress; i != nil {
		for _, f := range []frontWant{
			{name: k.opts.Names.Name(FrontHTTP), port: v1alpha1.HTTPPort, to: i.HTTPNodePort},
			{name: k.opts.Names.Name(FrontHTTPS), port: v1alpha1.HTTPSPort, to: i.HTTPSNodePort},
		} {
			f.idle, f.monitor, f.role = ingressIdle, monitors.TypeTCP, provider.Worker
			out = append(out, f)
		}
	}
	for i := range out {
		out[i].spread = pools.LBMethodLeastConnections
		if o.OVN() { // its only method
			out[i].spread = pools.LBMethodSourceIpPort
		}
	}
	return out
}

// wantedMembers lists the wanted machines behind a front, as far as their addresses are known.
func (k *Keeper) wantedMembers(ctx context.Context, w frontWant, want provider.Wanted) []member {
	var out []member
	for _, s := range want.Machines {
		if s.Role != w.role {
			continue
		}
		if m, err := k.opts.Machine(ctx, s.Name); err == nil && m.Address != "" {
			out = append(out, member{name: s.Name, address: m.Address, port: w.to})
		}
	}
	return sortMembers(out)
}

// First returns the first member of a new load balancer: the control-plane machine with the lowest index.
func First(want provider.Wanted) string {
	var first *provider.MachineSpec
	for i, s := range want.Machines {
		if s.Role == provider.ControlPlane && (first == nil || s.Index < first.Index) {
			first = &want.Machines[i]
		}
	}
	if first == nil {
		return ""
	}
	return first.Name
}

func sortMembers(ms []member) []member {
	slices.SortFunc(ms, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.address, b.address), cmp.Compare(a.port, b.port))
	})
	return ms
}

// machines lists the members of the front's pool in order.
func (f Front) machines() []member {
	out := make([]member, 0, len(f.Members))
	for _, m := range f.Members {
		out = append(out, memberOf(m))
	}
	return sortMembers(out)
}

func memberOf(m pools.Member) member {
	return member{name: m.Name, address: m.Address, port: m.ProtocolPort}
}

// settings lists the differences between the wanted and the seen front, except members.
func (w frontWant) settings(f Front) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	switch {
	case f.Listener.ID == "":
		add("listener on port %d is missing", w.port)
	case f.Listener.ProtocolPort != w.port:
		add("listens on port %d, %d is wanted", f.Listener.ProtocolPort, w.port)
	case !slices.Equal(sorted(f.Listener.AllowedCIDRs), w.allowed):
		add("port %d is open to %s, %s is wanted", w.port, openTo(f.Listener.AllowedCIDRs), openTo(w.allowed))
	case f.Listener.TimeoutClientData != w.idle || f.Listener.TimeoutMemberData != w.idle:
		add("port %d cuts silent connections after %d ms, %d is wanted", w.port, f.Listener.TimeoutClientData, w.idle)
	case f.Pool.ID != "" && f.Listener.DefaultPoolID != f.Pool.ID:
		add("port %d leads nowhere", w.port)
	}
	switch {
	case f.Pool.ID == "":
		add("pool behind port %d is missing", w.port)
	case f.Monitor.ID == "":
		add("monitor of port %d is missing", w.port)
	case f.Monitor.Type != w.monitor:
		add("monitor of port %d is %s, %s is wanted", w.port, f.Monitor.Type, w.monitor)
	}
	return out
}

func openTo(cidrs []string) string {
	if len(cidrs) == 0 {
		return "all"
	}
	return fmt.Sprint(sorted(cidrs))
}

// changes lists the changes that turn a pool's members into the wanted ones.
func changes(have, want []member) []string {
	var out []string
	for _, m := range want {
		if !slices.Contains(have, m) {
			out = append(out, fmt.Sprintf("add %s (%s:%d)", m.name, m.address, m.port))
		}
	}
	for _, m := range have {
		if !slices.Contains(want, m) {
			out = append(out, fmt.Sprintf("remove %s (%s:%d)", m.name, m.address, m.port))
		}
	}
	return out
}

// Need counts the parts of the load balancer that an apply would create, according to the last observation; subnet is the CIDR of the
// machines' network.
func (k *Keeper) Need(d quota.Demand, want provider.Wanted, subnet string) {
	b := k.Seen()
	if b == nil {
		d[quota.LoadBalancers]++
		d[quota.Ports]++
	}
	for _, w := range k.wantedFronts(subnet) {
		w.need(d, b.Front(w.name), machinesOf(want, w.role))
	}
}

func (w frontWant) need(d quota.Demand, f Front, members int) {
	if f.Listener.ID == "" {
		d[quota.Listeners]++
	}
	if f.Pool.ID == "" {
		d[quota.Pools]++
	}
	if f.Monitor.ID == "" {
		d[quota.Monitors]++
	}
	d[quota.Members] += max(0, members-len(f.Members))
}
