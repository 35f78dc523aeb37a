package floating

import (
	"context"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Options configures a Keeper: the cluster whose floating IPs it keeps, and its access to the rest of the cluster.
type Options struct {
	Cluster  *v1alpha1.Cluster
	Names    marks.Names
	Cloud    func(context.Context) (*cloud.Cloud, error)
	Lacks    *cloud.Lacks
	Existing *existing.Finder
	Known    *cache.Cache[floatingips.FloatingIP] // the cluster's own

	Port  func(machine string) (ports.Port, bool) // of a machine
	Ports func(machine string) []ports.Port       // all of them, after an interrupted run
	Front func() string                           // ID of the port with the API's virtual address; empty before it exists
}

// Keeper keeps a cluster's floating IPs.
type Keeper struct {
	opts     Options
	reserved *cache.Cache[floatingips.FloatingIP] // the user's own, for the API's address; see front.go

	mu sync.Mutex // assign one floating IP at a time

	former []floatingips.FloatingIP // the user's floating IPs that must leave the API's address; set by LookForFormer
}

// New returns the keeper of a cluster's floating IPs. It makes no call.
func New(o Options) *Keeper {
	k := &Keeper{opts: o}
	k.reserved = cache.New(func(f floatingips.FloatingIP) string { return f.ID }, k.listReserved)
	return k
}

// Reserved returns the cache of the user's own floating IP for the API's address.
func (k *Keeper) Reserved() *cache.Cache[floatingips.FloatingIP] { return k.reserved }

// signedIn returns the cloud and its logged-in user.
func (k *Keeper) signedIn(ctx context.Context) (*cloud.Cloud, cloud.User, error) {
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return nil, cloud.User{}, err
	}
	me, err := c.WhoAmI()
	return c, me, err
}

// network returns the client of the network service.
func (k *Keeper) network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	return c.Network, nil
}
