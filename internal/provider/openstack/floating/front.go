package floating

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// The API's floating IP is either created for the cluster, or the user's own, which may already be published: that one has no mark, is attached to
// the API, and stays with the user when the cluster is removed. One that was created for the API becomes the user's once the document names it.

const reservedField = "spec.endpoint.floatingIP"

// ReservedIP returns the address of the user's own floating IP for the API; empty if Naupegos makes one.
func (k *Keeper) ReservedIP() string { return k.opts.Cluster.Spec.Endpoint.FloatingIP }

// listReserved looks up the user's floating IP; it makes no call if the document names none.
func (k *Keeper) listReserved(ctx context.Context) ([]floatingips.FloatingIP, error) {
	if k.ReservedIP() == "" {
		return nil, nil
	}
	c, me, err := k.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	// administrators see the floating IPs of all projects
	opts := floatingips.ListOpts{FloatingIP: k.ReservedIP(), ProjectID: me.Project.ID}
	all, err := cloud.Pages(ctx, floatingips.List(c.Network, opts), floatingips.ExtractFloatingIPs)
	if k.opts.Lacks.Learns(cloud.KindFloating, err) {
		return nil, nil
	}
	return keepReserved(all, k.ReservedIP(), me.Project.ID), cloud.Wrap(err, "look for floating IP %s", k.ReservedIP())
}

// keepReserved filters the list again, because some clouds ignore unknown filters.
func keepReserved(all []floatingips.FloatingIP, address, project string) []floatingips.FloatingIP {
	for _, f := range all {
		if f.FloatingIP == address && f.ProjectID == project {
			return []floatingips.FloatingIP{f}
		}
	}
	return nil
}

// IsReserved reports whether a floating IP is the one that the document names, and therefore the user's.
func (k *Keeper) IsReserved(f floatingips.FloatingIP) bool {
	return k.ReservedIP() != "" && f.FloatingIP == k.ReservedIP()
}

// madeFor returns the machine or the other cluster that a floating IP was made for; empty if there is none.
func (k *Keeper) madeFor(f floatingips.FloatingIP) string {
	tags := append([]string{f.Description}, f.Tags...)
	if machine := marks.Tagged(tags, marks.KeyMachine); machine != "" {
		return "machine " + machine
	}
	if id := marks.Tagged(tags, marks.KeyCluster); id != "" && id != k.opts.Names.ID {
		return "cluster " + id
	}
	return ""
}

// CheckReserved checks that the user's floating IP exists and is free.
func (k *Keeper) CheckReserved(context.Context) error {
	if k.ReservedIP() == "" {
		return nil
	}
	f, ok := k.reserved.Find(cache.Anything)
	switch {
	case !ok:
		return fail.New(fail.Refused, "the project has no floating IP %s", k.ReservedIP()).At(reservedField).
			Do("make it (openstack floating ip create --floating-ip-address %s NETWORK), or leave it out", k.ReservedIP())
	case k.madeFor(f) != "":
		return fail.New(fail.Refused, "floating IP %s was made for %s, and is released with it", f.FloatingIP, k.madeFor(f)).At(reservedField).
			Do("name one of your own, or leave it out")
	case f.PortID != "" && f.PortID != k.opts.Front():
		return fail.New(fail.Refused, "floating IP %s leads to port %s (%s) already", f.FloatingIP, f.PortID, f.FixedIP).At(reservedField).
			Do("take it away there (openstack floating ip unset --port %s), or name another one", f.FloatingIP)
	}
	return nil
}

// Front returns the floating IP that leads to the port of the API's address.
func (k *Keeper) Front(portID string) (floatingips.FloatingIP, bool) {
	if k.ReservedIP() == "" {
		return k.Of(portID)
	}
	return k.reserved.Find(func(f floatingips.FloatingIP) bool { return portID != "" && f.PortID == portID })
}

// FrontLack describes how the floating IP of the API's address differs from the wanted state; empty if it does not.
func (k *Keeper) FrontLack(portID string) string {
	f, ok := k.Front(portID)
	switch {
	case !ok && k.ReservedIP() != "":
		return "floating IP " + k.ReservedIP() + " is not associated with it"
	case ok && k.ReservedIP() != "" && k.madeFor(f) != "": // refused by CheckReserved
		return "floating IP " + k.ReservedIP() + " was made for " + k.madeFor(f)
	case ok && k.ReservedIP() != "" && k.opts.Names.Ours(f.Description, f.Tags):
		return "floating IP " + k.ReservedIP() + " belongs to the cluster so far, and becomes yours"
	case !ok || k.ReservedIP() == "" && !slices.Contains(f.Tags, k.opts.Names.Mark()): // an interrupted run can leave it without tags
		return "its floating IP is missing, or lacks tags"
	}
	return ""
}

// AskConsent makes a step require consent if it releases the floating IP that was made for the API's address, or detaches a floating IP of the user.
func (k *Keeper) AskConsent(s *plan.Step, portID string) {
	f, ok := k.Of(portID)
	if o := k.opts.Cluster.Spec.Endpoint.LoadBalancer(); ok && !k.IsReserved(f) && (k.ReservedIP() != "" || o != nil && o.Internal) {
		s.Consent, s.Details = provider.ConsentAddresses, append(s.Details, "release floating IP "+f.FloatingIP)
	}
	for _, f := range k.former {
		s.Consent, s.Details = provider.ConsentAddresses, append(s.Details, "disassociate floating IP "+f.FloatingIP+", which remains yours")
	}
}

// LookForFormer finds the user's floating IPs that the API's address still has although the document no longer names them. A port's address has
// at most one floating IP, so LookForFormer makes no call if the address has the cluster's own or the one that the document names.
func (k *Keeper) LookForFormer(ctx context.Context) error {
	k.former = nil
	port := k.opts.Front()
	if port == "" || k.Has(port) {
		return nil
	}
	if _, ok := k.Front(port); ok {
		return nil
	}
	var err error
	k.former, err = k.usersOwn(ctx, port)
	return err
}

// usersOwn lists the floating IPs of a port that do not belong to the cluster.
func (k *Keeper) usersOwn(ctx context.Context, portID string) ([]floatingips.FloatingIP, error) {
	c, err := k.network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := cloud.Pages(ctx, floatingips.List(c, floatingips.ListOpts{PortID: portID}), floatingips.ExtractFloatingIPs)
	if k.opts.Lacks.Learns(cloud.KindFloating, err) {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(f floatingips.FloatingIP) bool {
			return f.PortID != portID || k.opts.Names.Ours(f.Description, f.Tags)
		}),
		cloud.Wrap(err, "list the floating IPs of port %s", portID)
}

// EnsureFront attaches the user's floating IP or, if the document names none, the cluster's own to the port of the API's address.
func (k *Keeper) EnsureFront(ctx context.Context, portID, role string) error {
	if err := k.takeOffFormer(ctx, portID); err != nil {
		return err
	}
	if k.ReservedIP() == "" {
		_, err := k.Ensure(ctx, portID, k.opts.Names.RoleTags(role))
		return err
	}
	if err := cache.Fresh(ctx, k.reserved, k.opts.Known); err != nil {
		return err
	}
	if err := k.CheckReserved(ctx); err != nil {
		return err
	}
	if err := k.Adopt(ctx); err != nil {
		return err
	}
	f, _ := k.reserved.Find(cache.Anything)
	if f.PortID == portID {
		return nil
	}
	if made, ok := k.Of(portID); ok { // a port's address takes only one
		if err := k.Remove(ctx, []floatingips.FloatingIP{made}); err != nil {
			return err
		}
	}
	return k.leadReserved(ctx, f, portID)
}

// Release detaches the user's floating IP from the cluster, also one that the document no longer names, because the router can't go
// while a floating IP leads through it.
func (k *Keeper) Release(ctx context.Context) error {
	port := k.opts.Front()
	if port == "" {
		return nil
	}
	all, err := k.usersOwn(ctx, port)
	if err != nil {
		return err
	}
	for _, f := range all {
		k.reserved.Invalidate()
		if err := k.takeOff(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// takeOffFormer detaches the floating IPs that the user consented to detach from the port of the API's address. It leaves alone those that
// lead elsewhere by now.
func (k *Keeper) takeOffFormer(ctx context.Context, portID string) error {
	if len(k.former) == 0 {
		return nil
	}
	there, err := k.usersOwn(ctx, portID)
	if err != nil {
		return err
	}
	for _, f := range there {
		if !slices.ContainsFunc(k.former, func(old floatingips.FloatingIP) bool { return old.ID == f.ID }) {
			continue
		}
		if err := k.takeOff(ctx, f); err != nil {
			return err
		}
	}
	k.former = nil
	return nil
}

// adoptable returns the floating IP that was made for the API and that the document names now.
func (k *Keeper) adoptable() (floatingips.FloatingIP, bool) {
	return k.reserved.Find(func(f floatingips.FloatingIP) bool {
		return k.opts.Names.Ours(f.Description, f.Tags) && k.madeFor(f) == ""
	})
}

// Adopt makes that floating IP the user's by removing the cluster's marks, by which it would be released with the cluster. It removes
// the tags last, because they let it find the floating IP after an interruption.
func (k *Keeper) Adopt(ctx context.Context) error {
	if _, ok := k.adoptable(); !ok {
		return nil
	}
	c, err := k.network(ctx)
	if err != nil {
		return err
	}
	if err := k.reserved.Load(ctx); err != nil { // the update must repeat the current port, or it would detach the floating IP
		return err
	}
	f, ok := k.adoptable()
	if !ok {
		return nil
	}
	opts := floatingips.UpdateOpts{Description: new(""), PortID: &f.PortID}
	if err := floatingips.Update(ctx, c, f.ID, opts).Err; err != nil {
		return cloud.Wrap(err, "take the cluster's mark off floating IP %s", f.FloatingIP)
	}
	f.Description = ""
	f.Tags = slices.DeleteFunc(slices.Clone(f.Tags), func(t string) bool { return strings.HasPrefix(t, marks.KeyPrefix) })
	if err := attributestags.ReplaceAll(ctx, c, "floatingips", f.ID, attributestags.ReplaceAllOpts{Tags: f.Tags}).Err; err != nil {
		return cloud.Wrap(err, "take the cluster's tags off floating IP %s", f.FloatingIP)
	}
	k.opts.Known.Drop(f.ID)
	k.reserved.Keep(f)
	return nil
}

// takeOff detaches a floating IP of the user from its port.
func (k *Keeper) takeOff(ctx context.Context, f floatingips.FloatingIP) error {
	c, err := k.network(ctx)
	if err != nil {
		return err
	}
	err = floatingips.Update(ctx, c, f.ID, floatingips.UpdateOpts{PortID: new("")}).Err
	return cloud.Wrap(cloud.UnlessGone(err), "take floating IP %s off the cluster", f.FloatingIP)
}

func (k *Keeper) leadReserved(ctx context.Context, f floatingips.FloatingIP, portID string) error {
	c, err := k.network(ctx)
	if err != nil {
		return err
	}
	got, err := floatingips.Update(ctx, c, f.ID, floatingips.UpdateOpts{PortID: &portID}).Extract()
	_, err = cache.Made(k.reserved, got, err, "lead floating IP %s to port %s", f.FloatingIP, portID)
	return err
}
