package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
)

// sizes runs the checks that depend on flavors: images, and quotas.
func (f preflight) sizes(ctx context.Context) error {
	if _, err := f.existing.Flavors(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.shapes(ctx) })
	g.Go(func() error { return f.quotas(ctx) })
	return g.Wait()
}

// shapes checks, for machines without a server, that the flavors and images exist, and that each image fits onto their disk and into their memory.
func (f preflight) shapes(ctx context.Context) error {
	seen := map[string]bool{}
	for _, m := range f.want.Machines {
		if _, ok := f.serverOf(m.Name); ok || seen[poolName(m)] {
			continue
		}
		seen[poolName(m)] = true
		s := f.shape(m.Role, m.Pool)
		flavor, noFlavor := f.existing.Flavor(ctx, s.Flavor)
		if err := f.refused(aboutFlavors, noFlavor, "flavor %q, wanted for %s", s.Flavor, poolName(m)); err != nil {
			return err
		}
		image, noImage := f.existing.Image(ctx, s.Image)
		if err := f.refused(aboutImages, noImage, "image %q, wanted for %s", s.Image, poolName(m)); err != nil {
			return err
		}
		if noFlavor == nil && noImage == nil {
			f.fits(m, s, flavor, image)
		}
		if noImage == nil {
			f.bundleOf(m, image)
		}
	}
	return nil
}

// refused records an error that says what the cloud lacks (fail.Refused), prefixed with the formatted text, and returns any other error.
func (f preflight) refused(section int, err error, format string, args ...any) error {
	if err == nil || fail.KindOf(err) != fail.Refused {
		return err
	}
	f.found.add(section, "%s: %v", fmt.Sprintf(format, args...), err)
	return nil
}

// fits reports whether an image fits onto a machine.
func (f preflight) fits(m provider.MachineSpec, s v1alpha1.MachineShape, flavor flavors.Flavor, image images.Image) {
	disk, what := s.RootVolume(), fmt.Sprintf("the root volume has %d GiB", s.RootVolume())
	if disk == 0 {
		disk, what = flavor.Disk, fmt.Sprintf("flavor %s has %d GiB", s.Flavor, flavor.Disk)
	}
	const gib = 1 << 30
	size := max(int64(image.MinDiskGigabytes), (max(image.SizeBytes, image.VirtualSize)+gib-1)/gib)
	switch {
	case disk == 0:
		f.found.add(aboutFlavors, "flavor %s of %s has no disk: set rootVolumeGiB", s.Flavor, poolName(m))
	case int64(disk) < size:
		f.found.add(aboutImages, "image %s of %s needs a disk of %d GiB, %s", s.Image, poolName(m), size, what)
	}
	if flavor.RAM < image.MinRAMMegabytes {
		f.found.add(aboutImages, "image %s of %s needs %d MiB of memory, flavor %s has %d",
			s.Image, poolName(m), image.MinRAMMegabytes, s.Flavor, flavor.RAM)
	}
}

// zones checks that the availability zones in the document exist.
func (f preflight) zones(ctx context.Context) error {
	wanted := map[string]string{}
	for _, m := range f.want.Machines {
		for _, z := range f.shape(m.Role, m.Pool).Zones {
			wanted[z] = poolName(m)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	have, err := f.existing.ServerZones(ctx, false)
	if err != nil {
		return err
	}
	for _, z := range have {
		delete(wanted, z)
	}
	for z, who := range wanted {
		f.found.add(aboutZones, "availability zone %s, wanted for %s, does not exist or is not available; there are: %s",
			z, who, existing.Listed(have))
	}
	return nil
}

// balancerVersion is Octavia's API version in OpenStack Train (2019), which introduced allowed CIDRs of a listener.
const balancerVersion = "2.12"

// versions checks that Octavia is new enough. Too old a Nova has already refused every call of Observe.
func (f preflight) versions(ctx context.Context) error {
	if f.octavia() == nil {
		if why := f.NoBalancing(); why != "" {
			f.found.warn(why + ": Services of type LoadBalancer will get no address")
		}
		return nil
	}
	if f.octavia().OVN() && len(f.opts.Cluster.Spec.Access.NodePortCIDRs) == 0 {
		f.found.warn("with load balancers of ovn, which leave the clients' addresses as they are, Services of type LoadBalancer are reached from the " +
			"machines' own network only: say in spec.access.nodePortCIDRs who else may")
	}
	c, err := f.c.LoadBalancer()
	if err != nil {
		return f.found.refusal(aboutAPIs, err)
	}
	if f.balancer.Seen() == nil {
		if err := f.found.refusal(aboutFlavors, f.balancer.CheckFlavor(ctx, c)); err != nil {
			return err
		}
		if err := f.found.refusal(aboutAPIs, f.balancer.CheckPlace(ctx, c)); err != nil {
			return err
		}
	}
	newest, err := cloud.NewestVersion(ctx, c)
	if err != nil {
		return err
	}
	if cloud.Older(newest, balancerVersion) {
		f.found.add(aboutAPIs, "the load-balancer service speaks versions up to %s, %s (OpenStack Train, 2019) is needed", newest, balancerVersion)
	}
	return nil
}
