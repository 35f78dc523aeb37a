package openstack

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// findings collects problems by section, so that their order does not depend on the order of the cloud's answers.
type findings struct {
	mu   sync.Mutex
	said map[int][]string
	odd  []string // warnings
}

// Sections of a preflight's findings, in display order.
const (
	aboutRoles = iota
	aboutAPIs
	aboutFlavors
	aboutImages
	aboutZones
	aboutVolumeTypes
	aboutNetworks
	aboutQuota
)

func (f *findings) add(section int, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.said == nil {
		f.said = map[int][]string{}
	}
	f.said[section] = append(f.said[section], fmt.Sprintf(format, args...))
}

// refusal records an error that says what the cloud lacks (fail.Refused), and returns any other error.
func (f *findings) refusal(section int, err error) error {
	if err == nil || fail.KindOf(err) != fail.Refused {
		return err
	}
	f.add(section, "%v", err)
	return nil
}

func (f *findings) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for section := aboutRoles; section <= aboutQuota; section++ {
		out = append(out, f.said[section]...)
	}
	return out
}

// Preflight checks that the cloud can provide everything wanted: roles, versions of its services, flavors, images, zones, volume types,
// networks and quotas. It returns all problems at once as one fail.Refused, before anything is made. The number of calls depends on the number
// of flavors and images in the document, not on the number of machines. Credentials that cannot log in are fail.Unauthorized. Existing
// resources are taken from the last Observe.
func (p *Provider) Preflight(ctx context.Context, want provider.Wanted) error {
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return err
	}
	check := preflight{Provider: p, c: c, me: me, want: want, found: &findings{}}
	check.roles()
	check.waysIn()
	check.volumes()
	g, gctx := errgroup.WithContext(ctx)
	for _, f := range []func(context.Context) error{check.versions, check.sizes, check.zones, check.volumeTypes, check.networks} {
		g.Go(func() error { return f(gctx) })
	}
	if err := g.Wait(); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "check whether the cloud can serve the cluster").At(p.n.Cluster)
	}
	if all := check.found.all(); len(all) > 0 {
		return fail.New(fail.Refused, "the cloud can't serve the cluster as it is wanted; nothing was made:\n  %s",
			strings.Join(all, "\n  ")).At(p.n.Cluster)
	}
	p.odd = slices.Compact(slices.Sorted(slices.Values(check.found.odd)))
	return nil
}

// preflight is one check of the wanted state against the cloud.
type preflight struct {
	*Provider
	c     *cloud.Cloud
	me    cloud.User
	want  provider.Wanted
	found *findings
}

// roles checks the token's roles. The cloud's policy decides what a role permits, and no call returns it.
func (f preflight) roles() {
	if err := f.me.MayDelegate(f.c.Login.Source); err != nil {
		f.found.add(aboutRoles, "%v", err)
	}
}

// networks checks the networks that the document names.
func (f preflight) networks(ctx context.Context) error {
	if err := f.routing(ctx); err != nil {
		return err
	}
	if err := cmp.Or(f.found.refusal(aboutNetworks, f.floating.CheckReserved(ctx)), f.site(ctx), f.found.refusal(aboutNetworks, f.dns.Preflight(ctx))); err != nil {
		return err
	}
	if f.spec().Network.Existing != "" {
		sub, err := f.existing.Subnet(ctx)
		if err != nil {
			return f.found.refusal(aboutNetworks, err)
		}
		taken, err := f.c.Taken(ctx, sub)
		if err != nil {
			return err
		}
		f.suits(sub, taken)
		return f.judge(ctx, sub)
	}
	if !f.ownRouter() {
		id, err := f.existing.Router(ctx)
		if err != nil {
			return f.found.refusal(aboutNetworks, err)
		}
		own := append([][2]string{{"spec.provider.openstack.network.cidr", f.spec().Network.CIDR}}, f.ranges()...)
		all, err := f.c.Beside(ctx, id, own, f.known.subnets.Filter(cache.Anything[subnets.Subnet]))
		if err != nil {
			return err
		}
		for _, o := range all {
			f.found.add(aboutNetworks, "%s, which router %s connects already: choose another one", o, f.spec().Network.Router)
		}
		return f.judgeRouter(ctx, id, "router "+f.spec().Network.Router)
	}
	return nil
}

// ranges lists the cluster's networks beside the machines', by the document's fields.
func (f preflight) ranges() [][2]string {
	spec := f.opts.Cluster.Spec
	out := [][2]string{{"spec.kubernetes.podCIDR", spec.Kubernetes.PodCIDR}, {"spec.kubernetes.serviceCIDR", spec.Kubernetes.ServiceCIDR}}
	if w := spec.Access.WireGuard; w != nil {
		out = append(out, [2]string{"spec.access.wireguard.cidr", w.CIDR})
	}
	return out
}

// suits checks that an existing subnet does not overlap the cluster's other networks and has enough free addresses. For a new
// subnet, the validation of the document already checks this.
func (f preflight) suits(sub subnets.Subnet, taken int) {
	own, err := netip.ParsePrefix(sub.CIDR)
	if err != nil {
		f.found.add(aboutNetworks, "the network of subnet %s can't be read: %v", sub.ID, err)
		return
	}
	for _, o := range f.ranges() {
		if p, err := netip.ParsePrefix(o[1]); err == nil && p.Overlaps(own) {
			f.found.add(aboutNetworks, "subnet %s (%s) overlaps %s (%s): choose another one there", sub.Name, own, o[0], p)
		}
	}
	needed, room := 0, cloud.Room(sub)
	for _, m := range f.want.Machines {
		if _, ok := f.portOf(m.Name); !ok {
			needed++
		}
	}
	if _, made := f.vipPort(); f.sharesVIP() && f.want.VIP && !made {
		needed++
	}
	if needed > room-taken {
		f.found.add(aboutNetworks, "subnet %s (%s) gives out %d addresses, %d of them are in use, and %d more are needed", sub.Name, own, room, taken, needed)
	}
}

// wantsFloating reports whether anything gets a floating IP.
func (p *Provider) wantsFloating() bool {
	o := p.octavia()
	return p.sharesVIP() || o != nil && !o.Internal || slices.ContainsFunc(p.opts.Cluster.Machines(), func(m v1alpha1.Machine) bool {
		return p.shape(provider.Role(m.Role), m.Pool).WantsFloatingIP()
	})
}

// needsExternal reports whether the cluster requires an external network: for floating IPs, or as its own router's way out.
func (p *Provider) needsExternal() bool {
	return p.wantsFloating() || p.makesRouter()
}

// makesRouter reports whether the cluster gets its own new router.
func (p *Provider) makesRouter() bool { return p.spec().Network.Existing == "" && p.ownRouter() }

// volumes reports the wanted volumes that a cloud without a volume service cannot provide.
func (f preflight) volumes() {
	why := f.NoVolumes()
	if why == "" {
		return
	}
	f.found.warn(why + ": PersistentVolumeClaims will get no volumes, and there is no StorageClass")
	told := map[string]bool{}
	for _, m := range f.want.Machines {
		s := f.shape(m.Role, m.Pool)
		if len(s.Volumes) > 0 && !told[poolName(m)] {
			told[poolName(m)] = true
			f.found.add(aboutAPIs, "%s, and %s wants volumes: leave them out", why, poolName(m))
		}
		if s.RootVolume() > 0 && !told[poolName(m)] {
			told[poolName(m)] = true
			f.found.add(aboutAPIs, "%s, and %s wants root volumes: leave rootVolumeGiB out, or set it to 0", why, poolName(m))
		}
	}
}

// volumeTypes checks that the volume types in the document exist.
func (f preflight) volumeTypes(ctx context.Context) error {
	wanted := map[string]string{}
	for _, m := range f.want.Machines {
		if s := f.shape(m.Role, m.Pool); s.RootVolume() > 0 && s.RootVolumeType != "" {
			wanted[s.RootVolumeType] = poolName(m)
		}
		for _, v := range f.shape(m.Role, m.Pool).Volumes {
			if v.Type != "" {
				wanted[v.Type] = poolName(m)
			}
		}
	}
	if len(wanted) == 0 || f.c.Volume == nil { // volumes reports that
		return nil
	}
	var types struct {
		Types []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"volume_types"`
	}
	if err := cloud.Get(ctx, f.c.Volume, &types, "types"); err != nil {
		return cloud.Wrap(err, "list volume types")
	}
	var have []string
	for _, t := range types.Types {
		have = append(have, t.Name)
		delete(wanted, t.Name)
		delete(wanted, t.ID)
	}
	for t, who := range wanted {
		f.found.add(aboutVolumeTypes, "volume type %s, wanted for %s, does not exist; there are: %s", t, who, strings.Join(have, ", "))
	}
	return nil
}

// poolName names the machines of a role or pool for display.
func poolName(m provider.MachineSpec) string {
	if m.Pool != "" {
		return "pool " + m.Pool
	}
	return string(m.Role)
}

// Properties of an image that identify the bundle in it.
const (
	PropertyBundle     = "naupegos_bundle"     // its ID
	PropertyKubernetes = "naupegos_kubernetes" // its release
)

// Warnings returns the warnings of the last Preflight.
func (p *Provider) Warnings() []string { return slices.Clone(p.odd) }

func (f *findings) warn(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.odd = append(f.odd, text)
}

// waysIn warns, before the first machine is made, if no machine of a new network will be reachable from outside. With an existing network or
// router the operator may be inside, or have a route.
func (f preflight) waysIn() {
	made := slices.ContainsFunc(f.want.Machines, func(m provider.MachineSpec) bool { _, ok := f.serverOf(m.Name); return ok })
	floats := slices.ContainsFunc(f.want.Machines, func(m provider.MachineSpec) bool { return f.shape(m.Role, m.Pool).WantsFloatingIP() })
	if made || floats || f.spec().Network.Existing != "" || !f.ownRouter() {
		return
	}
	f.found.warn("no machine gets a floating IP: from outside of the cluster's network none can be configured by SSH; " +
		"set floatingIP: true in spec.controlPlane.machine, or use the endpoint kind gateways")
}

// bundleOf warns if an image contains another bundle than the cluster's.
func (f preflight) bundleOf(m provider.MachineSpec, image images.Image) {
	bundle, _ := image.Properties[PropertyBundle].(string)
	release, _ := image.Properties[PropertyKubernetes].(string)
	want := f.opts.Cluster.Spec.Kubernetes.Version
	switch {
	case bundle == "" || m.Role == provider.Gateway: // gateways need no bundle
	case release != "" && release != want:
		f.found.warn("image " + image.Name + " of " + poolName(m) + " has Kubernetes " + release + " inside, the cluster's is " + want +
			": machines get what differs over the network")
	case f.opts.BundleID != "" && bundle != f.opts.BundleID:
		f.found.warn("image " + image.Name + " of " + poolName(m) + " has another bundle of Kubernetes " + want +
			" inside than the cluster's: machines get what differs over the network")
	}
}
