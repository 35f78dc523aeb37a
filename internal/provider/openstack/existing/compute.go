package existing

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Flavor finds a flavor by name or ID. All flavors are listed only once.
func (f *Finder) Flavor(ctx context.Context, name string) (flavors.Flavor, error) {
	c, err := f.cloud(ctx)
	if err != nil {
		return flavors.Flavor{}, err
	}
	all, err := f.Flavors(ctx)
	if err != nil {
		return flavors.Flavor{}, err
	}
	fit := called(all, name, func(x flavors.Flavor) (string, string) { return x.ID, x.Name })
	if len(fit) == 1 {
		return fit[0], nil
	}
	if len(fit) == 0 {
		x, ok, err := identified(name, func(id string) (*flavors.Flavor, error) { return flavors.Get(ctx, c.Compute, id).Extract() })
		if ok || err != nil {
			return x, cloud.Wrap(err, "look for flavor %s", name)
		}
		return x, fail.New(fail.Refused, "the cloud has no flavor called %s", name).At("machine.flavor").Do("there are: %s", flavorNames(all))
	}
	return flavors.Flavor{}, cloud.NotOne(len(fit), "flavors", name, "machine.flavor")
}

// Flavors lists all flavors.
func (f *Finder) Flavors(ctx context.Context) ([]flavors.Flavor, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flavors != nil {
		return f.flavors, nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return nil, err
	}
	all, err := cloud.Pages(ctx, flavors.ListDetail(c.Compute, nil), flavors.ExtractFlavors)
	if err != nil {
		return nil, cloud.Wrap(err, "list flavors")
	}
	f.flavors = all
	return all, nil
}

func flavorNames(all []flavors.Flavor) string {
	var out []string
	for _, f := range all {
		out = append(out, f.Name)
	}
	return Listed(out)
}

// Image finds an active image by name or ID.
func (f *Finder) Image(ctx context.Context, name string) (images.Image, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.images[name]; ok {
		return i, nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return images.Image{}, err
	}
	i, err := findImage(ctx, c.Image, name)
	if err != nil {
		return i, err
	}
	if f.images == nil {
		f.images = map[string]images.Image{}
	}
	f.images[name] = i
	return i, nil
}

func findImage(ctx context.Context, c *gophercloud.ServiceClient, name string) (images.Image, error) {
	const field = "machine.image"
	i, ok, err := identified(name, func(id string) (*images.Image, error) { return images.Get(ctx, c, id).Extract() })
	all := []images.Image{i}
	if err == nil && !ok {
		all, err = cloud.Pages(ctx, images.List(c, images.ListOpts{Name: name}), images.ExtractImages)
	}
	if err != nil {
		return i, cloud.Wrap(err, "look for image %s", name)
	}
	active := slices.DeleteFunc(slices.Clone(all), func(i images.Image) bool { return i.Status != images.ImageStatusActive })
	switch {
	case len(active) == 1:
		return active[0], nil
	case len(active) == 0 && len(all) > 0:
		return i, fail.New(fail.Refused, "image %s is %s, not active", name, all[0].Status).At(field).Do("wait until it is uploaded, or have it reactivated")
	}
	return i, cloud.NotOne(len(active), "images", name, field)
}
