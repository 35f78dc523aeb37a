package openstack

import (
	"context"
	"net/netip"
	"regexp"
	"slices"
	"time"

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
	if info.FloatingNetworkID, err = p.existing.External(ctx); err != nil {
		if fail.KindOf(err) != fail.Refused || p.needsExternal() {
			return info, err
		}
		info.FloatingNetworkID, info.InternalBalancers = "", true // Services get addresses of the machines' network
	}
	if info.FloatingNetworkID != "" {
		if info.FloatingSubnetID, err = p.existing.FloatingSubnet(ctx); err != nil {
			return info, err
		}
	}
	if info.BalancerClasses, err = p.existing.BalancerClasses(ctx); err != nil {
		return info, err
	}
	volumes, err := p.existing.VolumeZones(ctx, true)
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
		if marks.ShapeParts(s.Metadata[marks.Underscored(marks.KeyShape)])["volume"] != "" {
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
			return p.existing.ServerZones(ctx, true)
		}
		named = append(named, zones...)
	}
	return named, nil
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
