package runner

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// reading is the result of the last read of Octavia.
type reading struct {
	print    string // fingerprint of the load balancers' heads
	at       time.Time
	balances []balancer
}

// stale is the age at which balancers are read again although their heads have not changed.
const stale = 10 * time.Second

// carryBalancers adds the addresses of load balancers to this host's bridges and configures HAProxy to listen on them.
func (r *Runner) carryBalancers(ctx context.Context) error {
	if err := r.readBalancers(ctx); err != nil {
		return err
	}
	var here []balancer
	for _, b := range r.balance.balances {
		if n := r.nets[b.Network]; n != nil {
			if _, ok := n.served(); ok {
				here = append(here, b)
			}
		}
	}
	for id, n := range r.nets {
		if _, ok := n.served(); !ok {
			continue
		}
		if err := setVIPs(n.plain.Bridge(), n.hostPrefix(), vips(here, id)); err != nil {
			return err
		}
	}
	text, problems := proxyConfig(r.proxy.socket(), here)
	if !strings.Contains(text, "\nfrontend ") {
		text = ""
	}
	changed, err := r.proxy.apply(ctx, text)
	if changed && err == nil {
		r.log.Info("HAProxy carries load balancers", "load balancers", len(here), "not carried", problems)
	}
	return err
}

// readBalancers reads Octavia again if something may have changed.
func (r *Runner) readBalancers(ctx context.Context) error {
	heads, print, err := r.cloud.balancerHeads(ctx)
	if err != nil {
		return err
	}
	pending := strings.Contains(print, "PENDING_")
	if print == r.balance.print && !pending && time.Since(r.balance.at) < stale {
		return nil
	}
	all, err := r.cloud.balancers(ctx, heads)
	if err != nil {
		return err
	}
	r.balance = reading{print: print, at: time.Now(), balances: all}
	return nil
}

// carryFloatings updates the packet filter's rules for floating IPs and for the metadata address.
func (r *Runner) carryFloatings(ctx context.Context) error {
	all, err := r.cloud.floatings(ctx)
	if err != nil {
		return err
	}
	var nets []served
	for _, n := range r.nets {
		if s, ok := n.served(); ok {
			nets = append(nets, s)
		}
	}
	slices.SortFunc(nets, func(a, b served) int { return strings.Compare(a.Bridge, b.Bridge) })
	rules := ""
	if len(nets) > 0 {
		rules = translation(r.opts.table(), nets, reachable(all, nets))
	}
	switch {
	case rules == r.rules && rules != "", rules == "" && r.state.Table == "":
		return nil
	case rules == "":
		err = r.sweepFilter(ctx)
	default:
		err = r.applyFilter(ctx, rules)
	}
	if err == nil {
		r.rules = rules
		r.log.Info("floating IPs lead to machines", "floating IPs", len(reachable(all, nets)), "networks", len(nets))
	}
	return err
}

// applyFilter adds the links to external networks and applies the rules.
func (r *Runner) applyFilter(ctx context.Context, rules string) error {
	err := r.state.change(func() { r.state.Table, r.state.Link = r.opts.table(), r.opts.link() })
	if err != nil {
		return err
	}
	if err := r.outside(); err != nil {
		return err
	}
	return applyRules(ctx, rules)
}

// sweepFilter removes what applyFilter created, also in an earlier runner.
func (r *Runner) sweepFilter(ctx context.Context) error {
	if r.state.Table != "" {
		if err := removeTable(ctx, r.state.Table); err != nil {
			return err
		}
	}
	if r.state.Link != "" {
		if err := removeLink(r.state.Link); err != nil {
			return err
		}
	}
	return r.state.change(func() { r.state.Table, r.state.Link = "", "" })
}

// outside makes the external networks reachable from this host.
func (r *Runner) outside() error {
	skipped, err := ensureOutside(r.opts.link(), r.external)
	for _, p := range skipped {
		if !r.skipped[p] {
			r.log.Warn("this host has another route into an external network already: floating IPs go by it", "network", p)
		}
		r.skipped[p] = true
	}
	return err
}

// hostPrefix returns this host's address in the network.
func (n *network) hostPrefix() netip.Prefix { return netip.PrefixFrom(n.host, n.sub.Prefix.Bits()) }
