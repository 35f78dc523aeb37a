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

// frontWant is one port that the load balancer is to listen on. Listener, pool and monitor of it have the same name.
type frontWant struct {
	name    string
	port    int      // that it listens on
	allowed []string // networks that may connect, sorted; none: all
	spread  pools.LBMethod
	idle    int    // milliseconds after which a connection without traffic is cut
	monitor string // Octavia's type
	to      int    // the members' port
	role    provider.Role
}

// member is one machine behind a port.
type member struct {
	name, address string
	port          int
}

// Milliseconds without traffic after which a connection is cut: a watch of the API may be silent for long; Octavia's own 50 seconds
// would end it. A member is dead after two checks without an answer.
const (
	apiIdle        = 60 * 60 * 1000
	ingressIdle    = 10 * 60 * 1000
	monitorDelay   = 3 // seconds from check to check
	monitorTimeout = 2 // seconds for an answer
	monitorTries   = 2
)

// Names of the fronts, as parts of the names of listeners, pools and monitors.
const (
	FrontAPI   = "api"
	FrontHTTP  = "ingress-http"
	FrontHTTPS = "ingress-https"
)

// frontNames lists the full names of all fronts that there can be.
func (k *Keeper) frontNames() []string {
	return []string{k.opts.Names.Name(FrontAPI), k.opts.Names.Name(FrontHTTP), k.opts.Names.Name(FrontHTTPS)}
}

// wantedFronts lists what the load balancer is to listen on: the API first. cidr is the machines' own network.
func (k *Keeper) wantedFronts(cidr string) []frontWant {
	o := k.opts.Octavia
	if o == nil {
		return nil
	}
	api := frontWant{
		name: k.opts.Names.Name(FrontAPI), port: k.opts.Port, to: v1alpha1.APIServerPort, idle: apiIdle,
		monitor: monitors.TypeTLSHELLO, role: provider.ControlPlane,
	}
	if o.Monitor == "tcp" || o.OVN() { // which can do no more
		api.monitor = monitors.TypeTCP
	}
	if len(o.AllowedCIDRs) > 0 && !o.OVN() { // nodes reach the API through the load balancer, too; of OVN see access
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
		if o.OVN() { // the only one it has
			out[i].spread = pools.LBMethodSourceIpPort
		}
	}
	return out
}

// wantedMembers lists the wanted machines behind a front whose addresses are known.
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

// First returns the control-plane machine that the load balancer begins with: that of the lowest index.
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

// machines lists what is in the front's pool, in order.
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

// settings reports what differs between the front that is wanted and the one that was seen, members aside.
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

// changes reports what has to change in a pool so that its members are these.
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

// Need counts what an apply would make of the load balancer, by what was last seen; subnet is the CIDR of the machines' network.
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
