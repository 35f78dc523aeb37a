package hosts

import (
	"context"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/reach"
	"github.com/naupegos/naupegos/internal/remote"
)

// answer is the result of asking a host.
type answer struct {
	state  provider.State
	detail string // the problem, if any
}

// ask checks in parallel which hosts answer, and updates all.
func (p *Provider) ask(ctx context.Context, all []provider.Machine) error {
	found := make([]answer, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { found[i].state, found[i].detail = Judge(p.reach.Ask(ctx, p.host(m))) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "ask hosts whether they answer")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = map[string]answer{}
	for i, a := range found {
		p.found[all[i].Name] = a
		all[i].State, all[i].Detail = a.state, a.detail
	}
	return nil
}

// host returns how a machine is reached: through its jump hosts; without these, gateways directly, and all others through any one of the gateways
// whose host keys are given or trusted on first use, if there are any.
func (p *Provider) host(m provider.Machine) remote.Host {
	h := reach.Host(m)
	if m.Role == provider.Gateway || len(h.Via) > 0 {
		return h
	}
	for _, g := range p.ways() {
		h.Via = append(h.Via, reach.Host(p.convert(g)))
	}
	return h
}

// Power shuts a host down through its own systemd, and waits until it no longer answers. Naupegos cannot switch it on again.
func (p *Provider) Power(ctx context.Context, name, state string) error {
	m, err := p.Machine(ctx, name)
	if err != nil {
		return err
	}
	switch state {
	case "off":
	case "on", "kill":
		return fail.New(fail.Refused, "power %s: hosts given by address have no power control", state).At(name).Do("power it on or off at the machine")
	default:
		return fail.New(fail.Invalid, "unknown power state %q", state).At(name).Do("use off")
	}
	if err := p.reach.Ask(ctx, p.host(m)); err != nil {
		e := fail.Wrap(fail.KindOf(err), err, "shut the host down").At(name)
		if fail.KindOf(err) == fail.Unreachable { // it will not come back by itself
			e = e.Do("it may be off already, or cut off: this can't be told from here").Enough()
		}
		return e
	}
	if err := p.reach.ShutDown(ctx, p.host(m)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found[m.Name] = answer{provider.Unreachable, "it was shut down"}
	return nil
}
