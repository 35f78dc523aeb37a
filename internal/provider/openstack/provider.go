package openstack

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Provider makes, finds and removes the machines of one cluster in an OpenStack cloud.
type Provider struct {
	opts    Options
	n       marks.Names
	session session
	lookups lookups
	known   known
	lacks   lacks // of Neutron's kinds

	odd []string // warnings of the last Preflight

	floatingMu sync.Mutex // one floating IP is given away at a time

	glanced time.Time // by the cloud's clock, when servers that were being built were looked at last; see glanceAtBuilding

	former []floatingips.FloatingIP // of the user's, that have to leave the API's address; set by Steps

	balancer *balancer.Keeper
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Balancer = (*Provider)(nil)
	_ provider.Fronted  = (*Provider)(nil)
	_ provider.Drifter  = (*Provider)(nil)
	_ provider.Housed   = (*Provider)(nil)
	_ provider.Warner   = (*Provider)(nil)

	_ provider.CloudIntegration = (*Provider)(nil)
)

// Traits says that machines are in a cloud, which knows more addresses of them than they do.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{ExternalCloud: true, Outside: true, HostKeysConsole: true, Switched: true}
}

// known is what is known of the cluster's own resources.
type known struct {
	networks     *cache.Cache[networks.Network]
	subnets      *cache.Cache[subnets.Subnet]
	routers      *cache.Cache[routers.Router]
	groups       *cache.Cache[groups.SecGroup]
	ports        *cache.Cache[ports.Port]
	floating     *cache.Cache[floatingips.FloatingIP]
	reserved     *cache.Cache[floatingips.FloatingIP] // the user's own, for the API's address; see reserved.go
	servers      *cache.Cache[servers.Server]
	volumes      *cache.Cache[volumes.Volume]
	serverGroups *cache.Cache[servergroups.ServerGroup]
	keypairs     *cache.Cache[keypairs.KeyPair] // the cluster has one
}

// New returns the provider of a cluster. It asks nobody.
func New(o Options) (*Provider, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	p := &Provider{opts: o, n: marks.Names{ID: o.ClusterID, Cluster: o.Cluster.Metadata.Name}}
	p.known = p.caches()
	p.balancer = balancer.New(balancer.Options{
		Names: p.n, Octavia: p.octavia(), Port: o.Cluster.Spec.Endpoint.Port, Floating: balancerAddress{p},
		Timeouts: balancer.Timeouts{Boot: o.Timeouts.Boot, Delete: o.Timeouts.Delete, Step: o.Timeouts.Step, Poll: o.Timeouts.Poll},
		Cloud:    p.cloud, Subnet: p.subnet, CIDR: p.cidr, Machine: p.Machine,
	})
	return p, nil
}

// spec is what the document says of the cloud.
func (p *Provider) spec() *v1alpha1.OpenStack { return p.opts.Cluster.Spec.Provider.OpenStack }

// octavia is what the document says of the load balancer; nil where it wants none.
func (p *Provider) octavia() *v1alpha1.Octavia { return p.opts.Cluster.Spec.Endpoint.LoadBalancer() }

// shape is what machines of a role and pool are like.
func (p *Provider) shape(role provider.Role, pool string) v1alpha1.MachineShape {
	return p.opts.Cluster.Shape(string(role), pool)
}

// Home says where a cluster is: the ID of the project and the region. It is to be remembered before anything is made, and given as
// Options.Home from then on: with credentials for another place nothing of the cluster would be found, and destroying it would seem
// to be done.
func (p *Provider) Home(ctx context.Context) (string, error) {
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(me.Project.ID + " " + c.Region), nil
}

// session logs in once, when it is first needed. A failed login is tried again at the next call.
type session struct {
	mu sync.Mutex
	c  *cloud.Cloud
}

// signedIn returns the cloud, and who is logged in to it.
func (p *Provider) signedIn(ctx context.Context) (*cloud.Cloud, cloud.User, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, cloud.User{}, err
	}
	me, err := c.WhoAmI()
	return c, me, err
}

// cloud returns the cloud, logged in.
func (p *Provider) cloud(ctx context.Context) (*cloud.Cloud, error) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.c != nil {
		return p.session.c, nil
	}
	l, err := p.login(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cloud.Connect(ctx, l, p.opts.Calls)
	if err != nil {
		return nil, err
	}
	if err := c.CheckHome(p.opts.Home, p.n.Cluster); err != nil {
		return nil, err
	}
	p.session.c = c
	return c, nil
}

// login finds how to log in: by the credential that the document names, else as every OpenStack tool does.
func (p *Provider) login(ctx context.Context) (cloud.Login, error) {
	spec := p.spec()
	switch {
	case p.opts.Login != nil:
		n, err := p.opts.Login(ctx)
		if err != nil {
			return cloud.Login{}, err
		}
		return cloud.ReadNamed(n, spec.Cloud, spec.Region)
	case spec.Credential != "" || p.opts.Closed:
		return cloud.Login{}, fail.New(fail.Refused, "no credential admits to the cloud").Do("name one: spec.provider.openstack.credential")
	}
	return cloud.ReadLogin(spec.Cloud, spec.Region)
}
