package openstack

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// identified gets a resource by UUID if name is one (in either case), because lists omit shared, hidden and community resources. ok is false
// if name is not a UUID or no resource has it.
func identified[T any](name string, get func(id string) (*T, error)) (found T, ok bool, err error) {
	id := strings.ToLower(name)
	if !uuid.MatchString(id) {
		return found, false, nil
	}
	t, err := get(id)
	if cloud.Gone(err) {
		return found, false, nil
	}
	if err != nil {
		return found, false, err
	}
	return *t, true, nil
}

// called returns the items with the given name or, if there are none, those with that ID. An empty name matches every item.
func called[T any](all []T, name string, marks func(T) (id, name string)) []T {
	if name == "" {
		return all
	}
	for _, is := range []func(T) bool{
		func(t T) bool { _, n := marks(t); return n == name },
		func(t T) bool { id, _ := marks(t); return id == name },
	} {
		if fit := slices.DeleteFunc(slices.Clone(all), func(t T) bool { return !is(t) }); len(fit) > 0 {
			return fit
		}
	}
	return nil
}

// flavor finds a flavor by name or ID. All flavors are listed only once.
func (p *Provider) flavor(ctx context.Context, name string) (flavors.Flavor, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return flavors.Flavor{}, err
	}
	all, err := p.flavors(ctx)
	if err != nil {
		return flavors.Flavor{}, err
	}
	fit := called(all, name, func(f flavors.Flavor) (string, string) { return f.ID, f.Name })
	if len(fit) == 1 {
		return fit[0], nil
	}
	if len(fit) == 0 {
		f, ok, err := identified(name, func(id string) (*flavors.Flavor, error) { return flavors.Get(ctx, c.Compute, id).Extract() })
		if ok || err != nil {
			return f, cloud.Wrap(err, "look for flavor %s", name)
		}
		return f, fail.New(fail.Refused, "the cloud has no flavor called %s", name).At("machine.flavor").Do("there are: %s", flavorNames(all))
	}
	return flavors.Flavor{}, cloud.NotOne(len(fit), "flavors", name, "machine.flavor")
}

// flavors lists all flavors.
func (p *Provider) flavors(ctx context.Context) ([]flavors.Flavor, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.flavors != nil {
		return p.lookups.flavors, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	all, err := cloud.Pages(ctx, flavors.ListDetail(c.Compute, nil), flavors.ExtractFlavors)
	if err != nil {
		return nil, cloud.Wrap(err, "list flavors")
	}
	p.lookups.flavors = all
	return all, nil
}

func flavorNames(all []flavors.Flavor) string {
	var out []string
	for _, f := range all {
		out = append(out, f.Name)
	}
	return listed(out)
}

// listed joins names for display, sorted and without duplicates.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", ")
}

// image finds an active image by name or ID.
func (p *Provider) image(ctx context.Context, name string) (images.Image, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if i, ok := p.lookups.images[name]; ok {
		return i, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return images.Image{}, err
	}
	i, err := findImage(ctx, c.Image, name)
	if err != nil {
		return i, err
	}
	if p.lookups.images == nil {
		p.lookups.images = map[string]images.Image{}
	}
	p.lookups.images[name] = i
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
