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
	"github.com/naupegos/naupegos/internal/provider/openstack/credential"
	"github.com/naupegos/naupegos/internal/provider/openstack/dns"
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Provider makes, finds and removes the machines of one cluster in an OpenStack cloud.
type Provider struct {
	opts     Options
	n        marks.Names
	session  session
	existing *existing.Finder
	known    known
	lacks    cloud.Lacks // Neutron's missing kinds

	odd []string // warnings of the last Preflight

	floatingMu sync.Mutex // assign one floating IP at a time

	glanced time.Time // last poll of servers in BUILD, by the cloud's clock; see glanceAtBuilding

	former []floatingips.FloatingIP // the user's floating IPs that must leave the API's address; set by Steps

	balancer *balancer.Keeper
	dns      *dns.Keeper

	*credential.Issuer // makes and deletes the cluster's credentials
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

// Traits reports that machines are in a cloud, which knows more of their addresses than they do.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{ExternalCloud: true, Outside: true, HostKeysConsole: true, Switched: true}
}

// known caches the cluster's own resources.
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
	keypairs     *cache.Cache[keypairs.KeyPair] // at most one
}

// New returns the provider of a cluster. It makes no call.
func New(o Options) (*Provider, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	p := &Provider{opts: o, n: marks.Names{ID: o.ClusterID, Cluster: o.Cluster.Metadata.Name}}
	p.n.Site = marks.Site{Tags: p.spec().Tags, Metadata: p.spec().Metadata}
	p.existing = existing.New(p.spec(), p.cloud, &p.lacks)
	p.known = p.caches()
	p.balancer = balancer.New(balancer.Options{
		Names: p.n, Octavia: p.octavia(), Port: o.Cluster.Spec.Endpoint.Port, Floating: balancerAddress{p},
		Timeouts: balancer.Timeouts{Boot: o.Timeouts.Boot, Delete: o.Timeouts.Delete, Step: o.Timeouts.Step, Poll: o.Timeouts.Poll},
		Cloud:    p.cloud, Subnet: p.subnet, CIDR: p.cidr, Machine: p.Machine,
	})
	p.dns = dns.New(dns.Options{
		Names: p.n, DNS: p.spec().DNS, Endpoint: o.Cluster.Spec.Endpoint, Step: o.Timeouts.Step, Poll: o.Timeouts.Poll,
		Cloud: p.cloud, VIP: p.VIP, PublicVIP: p.PublicVIP, Machines: p.machines,
	})
	p.Issuer = credential.New(credential.Options{Names: p.n, Cloud: p.cloud, Balancing: p.balancer.Client, CACert: p.CACert, DNS: func() bool { return p.opts.Cluster.UsesDesignate() }})
	return p, nil
}

// spec returns the document's settings of the cloud.
func (p *Provider) spec() *v1alpha1.OpenStack { return p.opts.Cluster.Spec.Provider.OpenStack }

// octavia returns the document's settings of the load balancer; nil if it wants none.
func (p *Provider) octavia() *v1alpha1.Octavia { return p.opts.Cluster.Spec.Endpoint.LoadBalancer() }

// shape returns the shape of the machines of a role and pool.
func (p *Provider) shape(role provider.Role, pool string) v1alpha1.MachineShape {
	return p.opts.Cluster.Shape(string(role), pool)
}

// Home returns the location of a cluster: the IDs of project and region. The caller stores it before anything is made, and passes it as
// Options.Home from then on. Otherwise, with credentials for another place, Naupegos would find nothing of the cluster, and its destruction
// would seem complete.
func (p *Provider) Home(ctx context.Context) (string, error) {
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(me.Project.ID + " " + c.Region), nil
}

// session logs in once, on first use. A failed login is retried at the next call.
type session struct {
	mu sync.Mutex
	c  *cloud.Cloud
}

// signedIn returns the cloud and its logged-in user.
func (p *Provider) signedIn(ctx context.Context) (*cloud.Cloud, cloud.User, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, cloud.User{}, err
	}
	me, err := c.WhoAmI()
	return c, me, err
}

// cloud returns the cloud, and logs in on first use.
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

// login finds the login data: the credential that the document names, else the sources that every OpenStack tool reads.
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
