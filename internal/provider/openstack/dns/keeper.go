package dns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/dns/v2/recordsets"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Options configures a Keeper: the cluster whose record it keeps, and its access to the rest of the cluster.
type Options struct {
	Names    marks.Names
	DNS      *v1alpha1.OpenStackDNS // the document's settings of the record; nil: it wants none
	Endpoint v1alpha1.Endpoint
	Step     time.Duration // limit of the step
	Poll     time.Duration // pause between two polls

	Cloud     func(context.Context) (*cloud.Cloud, error)
	VIP       func(context.Context) (string, error) // address of the API in the machines' network; fail.NotFound before it exists
	PublicVIP func(context.Context) (string, error) // its floating IP; fail.NotFound before it exists
	Machines  func() []provider.Machine             // known machines
}

// Keeper keeps the record of a cluster's API.
type Keeper struct {
	opts    Options
	records *cache.Cache[recordsets.RecordSet] // the cluster's own, in all zones of the project

	mu     sync.Mutex
	unseen string
}

// New returns the keeper of a cluster's record. It makes no call.
func New(o Options) *Keeper {
	k := &Keeper{opts: o}
	k.records = cache.New(func(r recordsets.RecordSet) string { return r.ID }, k.list)
	return k
}

// Observe finds the cluster's records, with one call if the cloud has Designate.
func (k *Keeper) Observe(ctx context.Context) error { return k.records.Load(ctx) }

// list lists the cluster's records in all zones of the project, by their mark. If the document wants no record, a Designate that does not answer is
// no error, because a cloud may list one that nobody maintains.
func (k *Keeper) list(ctx context.Context) ([]recordsets.RecordSet, error) {
	k.setUnseen("")
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	client, err := c.DNS()
	if err != nil {
		if k.opts.DNS != nil { // Preflight refuses the document
			k.setUnseen(err.Error())
		}
		return nil, nil //nolint:nilerr // there is nothing to find
	}
	mark := k.opts.Names.Mark()
	all, err := cloud.Pages(ctx, recordsets.ListAll(client, recordsets.ListOpts{Description: mark}), recordsets.ExtractRecordSets)
	err = cloud.Wrap(err, "list DNS records")
	if err != nil && k.opts.DNS == nil && !cloud.Interrupted(err) {
		k.setUnseen(err.Error())
		return nil, nil
	}
	return slices.DeleteFunc(all, func(r recordsets.RecordSet) bool { return r.Description != mark }), err
}

func (k *Keeper) setUnseen(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unseen = why
}

// Unseen returns why the last Observe could not list the cluster's records; empty if it could.
func (k *Keeper) Unseen() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unseen
}

// Others lists the cluster's records for display.
func (k *Keeper) Others() []string {
	var out []string
	for _, r := range k.records.All() {
		out = append(out, "DNS record "+describe(r))
	}
	return out
}

func describe(r recordsets.RecordSet) string { return r.Type + " " + bare(r.Name) }

// bare returns a name of DNS without the dot at its end.
func bare(name string) string { return strings.TrimSuffix(name, ".") }

// host returns the API's name as Designate writes it.
func (k *Keeper) host() string { return bare(k.opts.Endpoint.DNSName) + "." }

// address returns the address of the API for clients outside of the machines' network; fail.NotReady while it is unknown.
func (k *Keeper) address(ctx context.Context) (string, error) {
	e := k.opts.Endpoint
	find := k.opts.PublicVIP
	switch {
	case e.Kind == v1alpha1.EndpointDirect:
		find = k.machine
	case e.FloatingIP != "": // known before it leads to the API
		return e.FloatingIP, nil
	case e.Octavia != nil && e.Octavia.Internal:
		find = k.opts.VIP
	}
	a, err := find(ctx)
	if fail.KindOf(err) == fail.NotFound {
		err = fail.Wrap(fail.NotReady, err, "learn the API's address")
	}
	return a, err
}

// machine returns the address of the single control-plane machine.
func (k *Keeper) machine(context.Context) (string, error) {
	for _, m := range k.opts.Machines() {
		if m.Role == provider.ControlPlane && m.Public != "" {
			return m.Public, nil
		}
		if m.Role == provider.ControlPlane && m.Address != "" {
			return m.Address, nil
		}
	}
	return "", fail.New(fail.NotFound, "the control-plane machine has no address yet")
}

// kindOf returns the type of an address's record.
func kindOf(address string) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() {
		return "AAAA"
	}
	return "A"
}
