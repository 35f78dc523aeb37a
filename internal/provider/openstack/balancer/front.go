package balancer

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// fronting changes the fronts of one load balancer.
type fronting struct {
	k        *Keeper
	c        *gophercloud.ServiceClient
	b        *State
	progress plan.Progress
}

// ensureFront creates or corrects one front of an existing load balancer: the pool before the port, so that no connection is accepted without
// a server behind it.
func (k *Keeper) ensureFront(
	ctx context.Context, c *gophercloud.ServiceClient, b *State, w frontWant, members []member, progress plan.Progress,
) error {
	f, seen := fronting{k, c, b, progress}, b.Front(w.name)
	if id := b.Ports[w.port]; id != "" && id != seen.Listener.ID {
		return fail.New(fail.Conflict, "port %d is taken by listener %s, which Naupegos did not make", w.port, id).At("load balancer " + b.LB.Name).
			Do("delete that listener, or choose another port")
	}
	pool, err := f.ensurePool(ctx, w, seen)
	if err != nil {
		return err
	}
	if err := f.ensureMembers(ctx, w.name, pool, seen.machines(), members); err != nil {
		return err
	}
	if err := f.ensureMonitor(ctx, w, pool, seen.Monitor); err != nil {
		return err
	}
	return f.ensureListener(ctx, w, pool, seen.Listener)
}

func (f fronting) change(ctx context.Context, what string, call func(context.Context) error) error {
	return f.k.Change(ctx, f.c, f.b.LB.ID, what, f.progress, call)
}

func (f fronting) ensurePool(ctx context.Context, w frontWant, seen Front) (string, error) {
	if seen.Pool.ID != "" {
		return seen.Pool.ID, nil
	}
	opts, id := f.k.poolOpts(w), ""
	opts.LoadbalancerID = f.b.LB.ID
	return id, f.change(ctx, "make pool "+w.name, func(ctx context.Context) error {
		pool, err := pools.Create(ctx, f.c, opts).Extract()
		if err == nil {
			id = pool.ID
		}
		return err
	})
}

// ensureMembers sets the members of a pool with one call.
func (f fronting) ensureMembers(ctx context.Context, name, pool string, have, want []member) error {
	if slices.Equal(have, want) {
		return nil
	}
	opts := make([]pools.BatchUpdateMemberOpts, 0, len(want))
	for _, m := range want {
		opts = append(opts, pools.BatchUpdateMemberOpts{Name: &m.name, Address: m.address, ProtocolPort: m.port, Tags: []string{f.k.opts.Names.Mark()}})
	}
	return f.change(ctx, "set members of pool "+name, func(ctx context.Context) error {
		return pools.BatchUpdateMembers(ctx, f.c, pool, opts).ExtractErr()
	})
}

func (f fronting) ensureMonitor(ctx context.Context, w frontWant, pool string, seen monitors.Monitor) error {
	if seen.ID != "" && seen.Type != w.monitor { // a monitor's type can't be changed
		err := f.change(ctx, "remove monitor "+w.name, func(ctx context.Context) error {
			return cloud.UnlessGone(monitors.Delete(ctx, f.c, seen.ID).ExtractErr())
		})
		if err != nil {
			return err
		}
		seen.ID = ""
	}
	if seen.ID != "" {
		return nil
	}
	opts := f.k.monitorOpts(w)
	opts.PoolID = pool
	return f.change(ctx, "make monitor "+w.name, func(ctx context.Context) error {
		return monitors.Create(ctx, f.c, opts).Err
	})
}

func (f fronting) ensureListener(ctx context.Context, w frontWant, pool string, seen listeners.Listener) error {
	if seen.ID != "" && seen.ProtocolPort != w.port { // nor can a listener's port
		if err := f.removeListener(ctx, w.name, seen.ID); err != nil {
			return err
		}
		seen.ID = ""
	}
	if seen.ID == "" {
		opts := f.k.listenerOpts(w)
		opts.LoadbalancerID, opts.DefaultPoolID = f.b.LB.ID, pool
		return f.change(ctx, "make listener "+w.name, func(ctx context.Context) error {
			return listeners.Create(ctx, f.c, opts).Err
		})
	}
	if seen.DefaultPoolID == pool && slices.Equal(sorted(seen.AllowedCIDRs), w.allowed) &&
		seen.TimeoutClientData == w.idle && seen.TimeoutMemberData == w.idle {
		return nil
	}
	allowed := append([]string{}, w.allowed...) // an empty list opens it to all networks
	opts := listeners.UpdateOpts{DefaultPoolID: &pool, AllowedCIDRs: &allowed, TimeoutClientData: &w.idle, TimeoutMemberData: &w.idle}
	return f.change(ctx, "change listener "+w.name, func(ctx context.Context) error {
		return listeners.Update(ctx, f.c, seen.ID, opts).Err
	})
}

func (f fronting) removeListener(ctx context.Context, name, id string) error {
	return f.change(ctx, "remove listener "+name, func(ctx context.Context) error {
		return cloud.UnlessGone(listeners.Delete(ctx, f.c, id).ExtractErr())
	})
}

// remove removes a front: its port first.
func (f fronting) remove(ctx context.Context, name string, seen Front) error {
	if seen.Listener.ID != "" {
		if err := f.removeListener(ctx, name, seen.Listener.ID); err != nil {
			return err
		}
	}
	if seen.Pool.ID == "" {
		return nil
	}
	return f.change(ctx, "remove pool "+name, func(ctx context.Context) error { // Octavia deletes its members and monitor too
		return cloud.UnlessGone(pools.Delete(ctx, f.c, seen.Pool.ID).ExtractErr())
	})
}
