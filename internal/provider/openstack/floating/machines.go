package floating

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Ensure returns the floating IP of a port: its current one, else an unattached one from an interrupted run, else a new one. The
// port's network must have a way out by then.
func (k *Keeper) Ensure(ctx context.Context, portID string, tags []string) (floatingips.FloatingIP, error) {
	k.mu.Lock() // two steps must not adopt the same floating IP
	defer k.mu.Unlock()
	if err := k.opts.Known.Fresh(ctx); err != nil {
		return floatingips.FloatingIP{}, err
	}
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return floatingips.FloatingIP{}, err
	}
	f, ok := k.Of(portID)
	if !ok {
		f, ok = k.opts.Known.Find(func(f floatingips.FloatingIP) bool { return k.isFree(f, tags) })
		if ok {
			got, err := floatingips.Update(ctx, c.Network, f.ID, floatingips.UpdateOpts{PortID: &portID}).Extract()
			if f, err = cache.Made(k.opts.Known, got, err, "give floating IP %s to port %s", f.FloatingIP, portID); err != nil {
				return f, err
			}
		}
	}
	if !ok {
		external, err := k.opts.Existing.External(ctx)
		if err != nil {
			return f, err
		}
		subnet, err := k.opts.Existing.FloatingSubnet(ctx)
		if err != nil {
			return f, err
		}
		got, err := floatingips.Create(ctx, c.Network, floatingips.CreateOpts{FloatingNetworkID: external, SubnetID: subnet, PortID: portID, Description: k.opts.Names.Mark()}).Extract()
		var failed error
		if f, ok, failed = cache.Late(ctx, k.opts.Known, err, func(f floatingips.FloatingIP) bool { return f.PortID == portID }); failed != nil {
			return f, failed
		}
		if !ok {
			if f, err = cache.Made(k.opts.Known, got, err, "create a floating IP for port %s", portID); err != nil {
				return f, err
			}
		}
	}
	if f.Tags, err = c.Tag(ctx, "floatingips", f.ID, f.Tags, tags); err != nil {
		return f, err
	}
	k.opts.Known.Keep(f)
	return f, nil
}

// isFree reports whether a floating IP is unattached, not named by the document, and without tags of another machine or role than those in tags.
func (k *Keeper) isFree(f floatingips.FloatingIP, tags []string) bool {
	if f.PortID != "" || k.IsReserved(f) {
		return false
	}
	machine, role := marks.Tagged(f.Tags, marks.KeyMachine), marks.Tagged(f.Tags, marks.KeyRole)
	return machine == marks.Tagged(tags, marks.KeyMachine) && (role == "" || role == marks.Tagged(tags, marks.KeyRole)) || machine == "" && role == ""
}

// Of returns the floating IP of a port.
func (k *Keeper) Of(portID string) (floatingips.FloatingIP, bool) {
	return k.opts.Known.Find(func(f floatingips.FloatingIP) bool { return portID != "" && f.PortID == portID })
}

// OfMachine lists the floating IPs of a machine: its port's, and those whose tags name it.
func (k *Keeper) OfMachine(name string) []floatingips.FloatingIP {
	ports := map[string]bool{}
	for _, o := range k.opts.Ports(name) {
		ports[o.ID] = true
	}
	return k.opts.Known.Filter(func(f floatingips.FloatingIP) bool {
		return marks.Tagged(f.Tags, marks.KeyMachine) == name || ports[f.PortID]
	})
}

// Public returns the floating IP of a machine; empty if it has none.
func (k *Keeper) Public(name string) string {
	port, _ := k.opts.Port(name)
	f, _ := k.Of(port.ID)
	return f.FloatingIP
}

// Remove releases floating IPs.
func (k *Keeper) Remove(ctx context.Context, all []floatingips.FloatingIP) error {
	c, err := k.network(ctx)
	if err != nil {
		return err
	}
	for _, f := range all {
		err := floatingips.Delete(ctx, c, f.ID).ExtractErr()
		if err := cache.Removed(k.opts.Known, f.ID, err, "give back floating IP %s", f.FloatingIP); err != nil {
			return err
		}
	}
	return nil
}

// Unwanted lists the floating IPs of a machine whose shape no longer asks for one.
func (k *Keeper) Unwanted(m provider.MachineSpec) []string {
	var out []string
	if !k.opts.Cluster.Shape(string(m.Role), m.Pool).WantsFloatingIP() {
		for _, f := range k.OfMachine(m.Name) {
			out = append(out, "release floating IP "+f.FloatingIP)
		}
	}
	return out
}

// Missing reports whether a machine lacks the floating IP that its shape asks for.
func (k *Keeper) Missing(m provider.MachineSpec) bool {
	return k.opts.Cluster.Shape(string(m.Role), m.Pool).WantsFloatingIP() && k.Public(m.Name) == ""
}

// Lack describes how a machine's floating IP differs from the wanted state; empty if it does not.
func (k *Keeper) Lack(m provider.MachineSpec) string {
	if !k.opts.Cluster.Shape(string(m.Role), m.Pool).WantsFloatingIP() {
		if len(k.OfMachine(m.Name)) > 0 {
			return "its floating IP is no longer wanted"
		}
		return ""
	}
	port, _ := k.opts.Port(m.Name)
	f, ok := k.Of(port.ID)
	switch {
	case !ok:
		return "it has no floating IP"
	case !slices.Contains(f.Tags, k.opts.Names.Mark()):
		return "its floating IP lacks tags"
	}
	return ""
}

// Has reports whether a port has a floating IP of the cluster.
func (k *Keeper) Has(portID string) bool {
	_, ok := k.Of(portID)
	return ok
}
