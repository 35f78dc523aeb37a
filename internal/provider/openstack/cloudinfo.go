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

// Network returns the IPv4 network of the machines, or fail.NotReady before it exists.
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

// CloudInfo returns the settings of the cloud's controllers, or fail.NotReady before the machines' network exists.
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
	if info.FloatingNetworkID != "" {
		if info.FloatingSubnetID, err = floatingSubnet(ctx, p); err != nil {
			return info, err
		}
	}
	if info.BalancerClasses, err = balancerClasses(ctx, p); err != nil {
		return info, err
	}
	volumes, err := p.volumeZones(ctx, true)
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

// NoBalancing returns why the project cannot use load balancers, according to the last Observe; empty if it can.
func (p *Provider) NoBalancing() string { return p.balancer.Unavailable() }

// NoVolumes returns why the project cannot use volumes; empty if it can, or before the first login.
func (p *Provider) NoVolumes() string {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.session.c == nil || p.session.c.Volume != nil {
		return ""
	}
	return "the cloud has no block-storage service"
}

// checkVolumes returns an error if machines have root volumes that the project cannot list: their removal could not be verified.
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

// zoneLabel matches a zone name that is valid as a label value. The volume driver turns every node's zone into a label and asks Cinder for the
// result: "AZ 1" becomes "AZ-1", which Cinder does not know.
var zoneLabel = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// placeVolumes decides where volumes are made, given the zones for volumes and the possible zones of nodes: in the zone of the machine or, if a
// node's zone is no zone for volumes or no valid label, all in the first zone for volumes. The result must not depend on the current location of
// nodes and of zones that are away for a while, because a StorageClass is immutable.
func placeVolumes(i *provider.CloudInfo, volumes, nodes []string) {
	foreign := func(zone string) bool { return !slices.Contains(volumes, zone) || !zoneLabel.MatchString(zone) }
	if len(volumes) > 0 && slices.ContainsFunc(nodes, foreign) {
		i.IgnoreVolumeZone, i.VolumeZone = true, volumes[0]
	}
}

// nodeZones lists the possible zones of nodes: those in the document if it names zones for all nodes, else the cloud's. Gateways are no nodes.
func (p *Provider) nodeZones(ctx context.Context) ([]string, error) {
	var named []string
	for _, m := range p.opts.Cluster.Machines() {
		role := provider.Role(m.Role)
		if role == provider.Gateway {
			continue
		}
		zones := p.shape(role, m.Pool).Zones
		if len(zones) == 0 {
			return p.serverZones(ctx, true)
		}
		named = append(named, zones...)
	}
	return named, nil
}

// listedZone is an availability zone, as the cloud lists it.
type listedZone struct {
	name string
	away bool // nothing can be made in it for now
}

// zoneNames returns the sorted names of zones; away includes zones in maintenance.
func zoneNames(zones []listedZone, away bool) []string {
	names := []string{}
	for _, z := range zones {
		if away || !z.away {
			names = append(names, z.name)
		}
	}
	slices.Sort(names)
	return names
}

// serverZones lists the zones for servers, sorted: those in which servers can be made now or, with away, all.
func (p *Provider) serverZones(ctx context.Context, away bool) ([]string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.serverZones != nil {
		return zoneNames(p.lookups.serverZones, away), nil
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
	p.lookups.serverZones = []listedZone{}
	for _, z := range zones.Info {
		p.lookups.serverZones = append(p.lookups.serverZones, listedZone{z.Name, !z.State.Available})
	}
	return zoneNames(p.lookups.serverZones, away), nil
}

// volumeZones returns the sorted zones for volumes: those in which volumes can be made now or, with away, all. Many clouds have only one.
func (p *Provider) volumeZones(ctx context.Context, away bool) ([]string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.volumeZones != nil {
		return zoneNames(p.lookups.volumeZones, away), nil
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
	p.lookups.volumeZones = []listedZone{}
	for _, z := range list {
		p.lookups.volumeZones = append(p.lookups.volumeZones, listedZone{z.ZoneName, !z.ZoneState.Available})
	}
	return zoneNames(p.lookups.volumeZones, away), nil
}

// volumeZoneFor returns the zone for the root volume of a machine: the volume zone with the name of the machine's zone if volumes can be made there now,
// because some clouds attach no volume from another zone; otherwise empty, and the cloud chooses.
func (p *Provider) volumeZoneFor(ctx context.Context, machine string) (string, error) {
	if machine == "" {
		return "", nil
	}
	all, err := p.volumeZones(ctx, false)
	if err != nil || !slices.Contains(all, machine) {
		return "", err
	}
	return machine, nil
}

// ClientCertificate returns the client certificate and key that the user's settings name for the cloud; empty if they name none.
func (p *Provider) ClientCertificate() (cert, key []byte, err error) {
	switch {
	case p.opts.Login != nil:
		ctx, cancel := context.WithTimeout(context.Background(), credentialTimeout)
		defer cancel()
		n, err := p.opts.Login(ctx)
		if err != nil {
			return nil, nil, err
		}
		return cloud.ClientCertificateNamed(n, p.spec().Cloud, p.spec().Region)
	case p.opts.Closed:
		return nil, nil, nil
	}
	return cloud.ClientCertificate(p.spec().Cloud, p.spec().Region)
}

// CACert returns the PEM certificates of the cloud's certificate authorities as named in the user's clouds.yaml; empty for the system's.
func (p *Provider) CACert() (string, error) {
	if p.opts.Login == nil {
		return cloud.CACert(p.spec().Cloud, p.spec().Region)
	}
	ctx, cancel := context.WithTimeout(context.Background(), credentialTimeout)
	defer cancel()
	n, err := p.opts.Login(ctx)
	if err != nil {
		return "", err
	}
	return cloud.CACertNamed(n, p.spec().Cloud, p.spec().Region)
}

// credentialTimeout bounds the lookup of a credential.
const credentialTimeout = 20 * time.Second
