package metal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
)

// Warnings returns the last Preflight's warnings about the spread of machines over failure domains.
func (p *Provider) Warnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.odd)
}

// foresee stores warnings about machines, including the given ones, that would fail together with one rack or switch.
func (p *Provider) foresee(ctx context.Context, given []registry.Given) error {
	all, err := p.o.Registry.Seated(ctx, p.cluster(), p.spec().Spread)
	if err != nil {
		if ctx.Err() != nil {
			err = fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "look how machines are spread")
		}
		return err
	}
	all = append(all, given...)
	odd := slices.Concat(p.together(all, registry.ControlPlanePool, "control-plane machines"), p.together(all, registry.GatewayPool, "gateways"))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.odd = odd
	return nil
}

// together returns warnings about a pool: domains whose failure the other machines do not survive, and machines in no known domain.
func (p *Provider) together(all []registry.Given, pool, what string) (odd []string) {
	domains := map[string][]string{}
	var order []string
	n := 0
	for _, g := range all {
		if g.Pool != pool {
			continue
		}
		if n++; domains[g.Domain] == nil {
			order = append(order, g.Domain)
		}
		domains[g.Domain] = append(domains[g.Domain], g.Machine)
	}
	if n < 2 {
		return nil
	}
	bearable := n - 1 // one gateway is enough
	if pool == registry.ControlPlanePool {
		bearable = (n - 1) / 2
	}
	for _, d := range order {
		names := strings.Join(domains[d], ", ")
		switch {
		case d == "":
			odd = append(odd, fmt.Sprintf("it is unknown what fails together with the %s %s: no LLDP of a switch has reached them%s", what, names, p.labelled()))
		case len(domains[d]) > bearable:
			odd = append(odd, fmt.Sprintf("%d of %d %s are in %s, and the cluster does not survive its loss: %s", len(domains[d]), n, what, d, names))
		}
	}
	return odd
}

// labelled says which label is missing to find the failure domain.
func (p *Provider) labelled() string {
	if s := p.spec().Spread; s != "" {
		return ", and they have no label " + s
	}
	return ", and spec.provider.metal.spread names no label"
}
