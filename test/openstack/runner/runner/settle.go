package runner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
)

// task is work in progress on a server's machine or on a network.
type task struct {
	boot   bool
	cancel context.CancelFunc
}

// retry is the time at which failed work is tried again.
type retry struct {
	at     time.Time
	failed int
}

const portlessRetry = 10 * time.Second

// locate looks up the places of new servers and adds their networks.
func (r *Runner) locate(ctx context.Context, list []server) error {
	if !r.remember(list) {
		return nil
	}
	places, err := r.cloud.places(ctx)
	if err != nil {
		return err
	}
	inside, outside, err := r.cloud.subnets(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(r.external, outside) {
		r.external, r.rules = outside, "" // recreate the rules, and the links to external networks with them
	}
	for _, s := range list {
		p, found := places[s.ID]
		if sub, ok := inside[p.Network]; found && ok {
			if err := r.meet(sub); err != nil {
				return err
			}
		}
		r.mu.Lock()
		r.where[s.ID] = p
		if !found && s.Status == "ACTIVE" {
			r.retries["port of "+s.ID] = retry{at: time.Now().Add(portlessRetry)}
		}
		r.mu.Unlock()
	}
	return nil
}

// remember stores the list and reports whether the place of a running server is unknown.
func (r *Runner) remember(list []server) (unknown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.known)
	for _, s := range list {
		r.known[s.ID] = s
		if s.Status != "ACTIVE" || r.where[s.ID].Network != "" {
			continue
		}
		unknown = unknown || time.Now().After(r.retries["port of "+s.ID].at)
	}
	for id := range r.where {
		if _, there := r.known[id]; !there {
			delete(r.where, id)
			delete(r.retries, "port of "+id)
			delete(r.seen, id)
		}
	}
	return unknown
}

// meet adds the network of a server unless the runner does not serve it.
func (r *Runner) meet(sub subnet) error {
	if r.nets[sub.Network] != nil || r.ignored[sub.Network] {
		return nil
	}
	if !r.opts.serves(sub) {
		r.ignored[sub.Network] = true
		return nil
	}
	n, err := newNetwork(r.opts, sub, r.meta, r.whoIn(sub.Network))
	if err != nil {
		r.log.Error("the servers of this network stay fake", "network", sub.Name, "error", err)
		r.ignored[sub.Network] = true
		return nil
	}
	r.nets[sub.Network] = n
	return r.state.change(func() { r.state.Networks = append(r.state.Networks, sub) })
}

// forget removes a deleted network from the state.
func (r *Runner) forget(id string) error {
	return r.state.change(func() {
		r.state.Networks = slices.DeleteFunc(r.state.Networks, func(s subnet) bool { return s.Network == id })
	})
}

// settle compares machines with servers and starts work on the differences.
func (r *Runner) settle(ctx context.Context, list []server) error {
	for id, n := range r.nets {
		have, err := n.machines(ctx)
		if err != nil {
			return fmt.Errorf("look at the machines of network %s: %w", n.sub.Name, err)
		}
		r.note(n, have)
		if running(have) {
			r.trouble("metadata for network "+n.sub.Name, n.answer())
		}
		wanted := 0
		for _, s := range list {
			r.mu.Lock()
			at := r.where[s.ID]
			r.mu.Unlock()
			m, found := have[s.ID]
			delete(have, s.ID)
			if at.Network == id || found {
				wanted++
				r.one(ctx, n, s, at.Address, m, found)
			}
		}
		for gone, m := range have {
			r.leave(ctx, n, gone, m)
		}
		if wanted == 0 && len(have) == 0 && !r.busy(id) {
			if err := r.drop(ctx, id, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// note records the locations of the consoles.
func (r *Runner) note(n *network, have map[string]provider.Machine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.consoles {
		if _, there := have[id]; !there && c.provider == n.plain {
			delete(r.consoles, id)
		}
	}
	for id, m := range have {
		r.consoles[id] = console{provider: n.plain, machine: m.Name}
	}
}

func running(have map[string]provider.Machine) bool {
	for _, m := range have {
		if m.State == provider.Running {
			return true
		}
	}
	return false
}

// one starts the work that a listed server's machine needs.
func (r *Runner) one(ctx context.Context, n *network, s server, at netip.Addr, m provider.Machine, found bool) {
	runs := found && m.State == provider.Running
	switch s.Status {
	case "ACTIVE":
		if runs && r.rebootAsked(ctx, s) {
			r.work(ctx, n, s.ID, "reboot "+s.Name, false, func(ctx context.Context) error {
				return errors.Join(n.plain.Power(ctx, m.Name, "off"), n.plain.Power(ctx, m.Name, "on"))
			})
		}
		if runs || !at.IsValid() {
			return
		}
		if found && m.State == provider.Stopped { // everything that it needs is on its disk
			r.work(ctx, n, s.ID, "start "+s.Name, true, func(ctx context.Context) error { return n.plain.Power(ctx, m.Name, "on") })
			return
		}
		r.work(ctx, n, s.ID, "boot "+s.Name, true, func(ctx context.Context) error { return r.boot(ctx, n, s, at) })
	case "SHUTOFF", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED":
		delete(r.seen, s.ID) // a machine that starts again counts as rebooted
		if runs {
			r.work(ctx, n, s.ID, "stop "+s.Name, false, func(ctx context.Context) error { return n.plain.Power(ctx, m.Name, "off") })
		}
	case "DELETED", "SOFT_DELETED":
		if found {
			r.leave(ctx, n, s.ID, m)
		}
	}
}

// lastSeen is the state of a running server at the last round.
type lastSeen struct {
	changed time.Time // by Nova, in whole seconds
	reboot  time.Time // reboots that began before this time are complete
}

// rebootAsked reports whether a running server was rebooted since the last round. Nova's status shows a reboot only for a moment, which a round
// can miss, but the server's change time stays.
func (r *Runner) rebootAsked(ctx context.Context, s server) bool {
	was, known := r.seen[s.ID]
	if !known {
		// a reboot before this change may have begun within the second to which Nova rounds it down
		r.seen[s.ID] = lastSeen{changed: s.Updated, reboot: s.Updated.Add(time.Second)}
		return false
	}
	if was.changed.Equal(s.Updated) {
		return false
	}
	at, err := r.cloud.lastReboot(ctx, s.ID)
	r.trouble("reboots", err)
	if err != nil {
		return false // the next round tries again
	}
	asked := at.After(was.reboot)
	if asked {
		was.reboot = at
	}
	r.seen[s.ID] = lastSeen{changed: s.Updated, reboot: was.reboot}
	return asked
}

// leave removes the machine of a deleted server, and cancels its boot first if that is still running.
func (r *Runner) leave(ctx context.Context, n *network, id string, m provider.Machine) {
	r.mu.Lock()
	t := r.tasks[id]
	r.mu.Unlock()
	if t != nil && t.boot {
		t.cancel()
		return
	}
	r.work(ctx, n, id, "remove "+m.Name, false, func(ctx context.Context) error { return n.destroy(ctx, m) })
}

// drop removes a network that has no servers any more.
func (r *Runner) drop(ctx context.Context, id string, n *network) error {
	if err := setVIPs(n.plain.Bridge(), n.hostPrefix(), nil); err != nil {
		return err
	}
	if err := n.remove(ctx); err != nil {
		return err
	}
	delete(r.nets, id)
	return r.forget(id)
}

// busy reports whether work on the machines of a network is in progress.
func (r *Runner) busy(network string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(tasksOf(r.tasks), func(id string) bool {
		at, known := r.where[id]
		return !known || at.Network == network
	})
}

func tasksOf(tasks map[string]*task) (ids []string) {
	for id := range tasks {
		ids = append(ids, id)
	}
	return ids
}

// work runs f beside the loop, one task at a time for each server, and again later if it fails.
func (r *Runner) work(ctx context.Context, n *network, id, what string, boot bool, f func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks[id] != nil || time.Now().Before(r.retries[id].at) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r.tasks[id] = &task{boot: boot, cancel: cancel}
	r.done.Go(func() {
		defer cancel()
		began := time.Now()
		err := f(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.tasks, id)
		switch {
		case err == nil:
			delete(r.retries, id)
			n.log.Info(what, "server", id, "seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()))
		case errors.Is(err, context.Canceled), fail.KindOf(err) == fail.Interrupted:
			n.log.Info(what+": given up", "server", id)
		default:
			failed := r.retries[id].failed + 1
			pause := min(time.Second<<failed, 30*time.Second)
			r.retries[id] = retry{at: time.Now().Add(pause), failed: failed}
			n.log.Error(what, "server", id, "error", err, "again in", pause)
		}
	})
}

// boot creates the machine of a server once a boot slot is free.
func (r *Runner) boot(ctx context.Context, n *network, s server, at netip.Addr) error {
	select {
	case r.boots <- struct{}{}:
		defer func() { <-r.boots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	in, err := r.meta.instance(ctx, s, at.String())
	if err != nil {
		return err
	}
	opts, err := r.inside(ctx, n, s)
	if err != nil {
		return err
	}
	return n.boot(ctx, s, at, in, opts)
}

// inside returns the machine's options for the content of the server's image.
func (r *Runner) inside(ctx context.Context, n *network, s server) (local.Options, error) {
	opts := n.base
	in, err := r.cloud.contentOf(ctx, s)
	switch {
	case err != nil:
		return opts, err
	case in.Bundle == "":
		opts.AgentBinary = "" // a plain image contains none of our files
	case in.SHA512 != "":
		opts.Base, opts.AgentBinary = r.cloud.ownImage(in), "" // the image contains everything
	default:
		if opts.Bundle, err = r.lib.Get(ctx, in.Bundle); err != nil {
			return opts, fail.Wrap(fail.KindOf(err), err, "find the bundle of the server's image").At(s.Name).
				Do("the bundle must be in this host's library, %s", r.opts.Bundles)
		}
	}
	return opts, nil
}
