package openstack

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Network returns the IPv4 network that the machines are in. fail.NotReady where it is not made yet.
func (p *Provider) Network(ctx context.Context) (netip.Prefix, error) {
	s, err := p.subnet(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	prefix, err := netip.ParsePrefix(s.CIDR)
	if err != nil {
		return prefix, fail.Wrap(fail.Internal, err, "the network of subnet %s", s.ID)
	}
	return prefix, nil
}

// CloudInfo returns what the cloud's controllers need to know. fail.NotReady where the machines' network is not made yet.
func (p *Provider) CloudInfo(ctx context.Context) (provider.CloudInfo, error) {
	s, err := p.subnet(ctx)
	if err != nil {
		return provider.CloudInfo{}, err
	}
	info := provider.CloudInfo{SubnetID: s.ID}
	if info.FloatingNetworkID, err = p.externalNetwork(ctx); err != nil {
		if fail.KindOf(err) != fail.Refused || p.needsExternal() {
			return info, err
		}
		info.FloatingNetworkID, info.InternalBalancers = "", true // Services get addresses of the machines' network
	}
	volumes, err := p.volumeZones(ctx)
	if err != nil {
		return info, err
	}
	nodes, err := p.nodeZones(ctx)
	if err != nil {
		return info, err
	}
	placeVolumes(&info, volumes, nodes)
	if o := p.octavia(); o != nil {
		info.LBProvider = o.Provider
		if o.OVN() {
			info.LBMethod = string(pools.LBMethodSourceIpPort)
		}
	}
	balancing, err := p.balancer.Client(ctx)
	info.NoLoadBalancers = balancing == nil
	return info, err
}

// NoBalancing says why the cloud gives the project no load balancers, as the last Observe found; empty: it does.
func (p *Provider) NoBalancing() string { return p.balancer.Unavailable() }

// NoVolumes says why the cloud gives the project no volumes, as is known once one is logged in; empty: it does.
func (p *Provider) NoVolumes() string {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.c == nil || p.session.c.Volume != nil {
		return ""
	}
	return "the cloud has no block-storage service"
}

// checkVolumes refuses to go on where machines have root volumes that can't be seen: of those nobody could tell whether they are gone.
func (p *Provider) checkVolumes() error {
	why := p.NoVolumes()
	if why == "" {
		return nil
	}
	for _, s := range p.known.servers.All() {
		if splitShape(s.Metadata[marks.Underscored(marks.KeyShape)])["volume"] != "" {
			return fail.New(fail.Refused, "it has a root volume, and %s, as the catalogue says", why).At(s.Name).
				Do("use the cloud, region and interface that it was made with")
		}
	}
	return nil
}

// zoneLabel is a zone that can be a label's value as it stands. The volume driver makes one of every node's zone, and asks Cinder for that: "AZ 1"
// becomes "AZ-1", which Cinder does not have.
var zoneLabel = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// placeVolumes decides where volumes are made, given the zones for volumes and those that nodes can be in. It must not depend on
// where nodes happen to be: a StorageClass can't be changed.
func placeVolumes(i *provider.CloudInfo, volumes, nodes []string) {
	foreign := func(zone string) bool { return !slices.Contains(volumes, zone) || !zoneLabel.MatchString(zone) }
	if len(volumes) > 0 && slices.ContainsFunc(nodes, foreign) {
		i.IgnoreVolumeZone, i.VolumeZone = true, volumes[0]
	}
}

// nodeZones lists the zones that nodes can be in: those that the document names where it does so for all of them, else the cloud's.
func (p *Provider) nodeZones(ctx context.Context) ([]string, error) {
	var named []string
	for _, m := range p.opts.Cluster.Machines() {
		role := provider.Role(m.Role)
		if role == provider.Gateway {
			continue
		}
		zones := p.shape(role, m.Pool).Zones
		if len(zones) == 0 {
			return p.serverZones(ctx)
		}
		named = append(named, zones...)
	}
	return named, nil
}

// serverZones lists the zones in which servers can be made, sorted.
func (p *Provider) serverZones(ctx context.Context) ([]string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.serverZones != nil {
		return p.lookups.serverZones, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	var zones struct {
		Info []struct {
			Name  string `json:"zoneName"`
			State struct {
				Available bool `json:"available"`
			} `json:"zoneState"`
		} `json:"availabilityZoneInfo"`
	}
	if err := cloud.Get(ctx, c.Compute, &zones, "os-availability-zone"); err != nil {
		return nil, cloud.Wrap(err, "list availability zones")
	}
	names := []string{}
	for _, z := range zones.Info {
		if z.State.Available {
			names = append(names, z.Name)
		}
	}
	slices.Sort(names)
	p.lookups.serverZones = names
	return names, nil
}

// volumeZones lists the zones in which volumes can be made, sorted. Many clouds have one for volumes and several for servers.
func (p *Provider) volumeZones(ctx context.Context) ([]string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.volumeZones != nil {
		return p.lookups.volumeZones, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	if c.Volume == nil {
		return nil, nil
	}
	page, err := availabilityzones.List(c.Volume).AllPages(ctx) // EachPage can't read this kind of page
	if err != nil {
		return nil, cloud.Wrap(err, "list the availability zones of volumes")
	}
	list, err := availabilityzones.ExtractAvailabilityZones(page)
	if err != nil {
		return nil, cloud.Wrap(err, "read the availability zones of volumes")
	}
	names := []string{}
	for _, z := range list {
		if z.ZoneState.Available {
			names = append(names, z.ZoneName)
		}
	}
	slices.Sort(names)
	p.lookups.volumeZones = names
	return names, nil
}

// volumeZoneFor returns the zone for the root volume of a machine in a zone: the one of the same name, where there is one, for some
// clouds attach no volume of another zone; else the cloud chooses.
func (p *Provider) volumeZoneFor(ctx context.Context, machine string) (string, error) {
	if machine == "" {
		return "", nil
	}
	all, err := p.volumeZones(ctx)
	if err != nil || !slices.Contains(all, machine) {
		return "", err
	}
	return machine, nil
}

// ClientCertificate returns the certificate and key that the user's settings name for the cloud; empty: none.
func (p *Provider) ClientCertificate() (cert, key []byte, err error) {
	switch {
	case p.opts.Login != nil:
		ctx, cancel := context.WithTimeout(context.Background(), credentialTimeout)
		defer cancel()
		n, err := p.opts.Login(ctx)
		if err != nil {
			return nil, nil, err
		}
		return cloud.ClientCertificateNamed(n, p.spec().Cloud)
	case p.opts.Closed:
		return nil, nil, nil
	}
	return cloud.ClientCertificate(p.spec().Cloud)
}

// CACert returns the PEM of the authorities that sign the cloud's certificates, as the user's clouds.yaml names them; empty: the
// system's.
func (p *Provider) CACert() (string, error) {
	if p.opts.Login == nil {
		return cloud.CACert(p.spec().Cloud)
	}
	ctx, cancel := context.WithTimeout(context.Background(), credentialTimeout)
	defer cancel()
	n, err := p.opts.Login(ctx)
	if err != nil {
		return "", err
	}
	return cloud.CACertNamed(n, p.spec().Cloud)
}

// credentialTimeout bounds the look for a credential.
const credentialTimeout = 20 * time.Second
