package openstack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// shapeMark is what a server was asked to be, written down with it: the document's own words, which are what it is compared
// with later. What the cloud says of a server (an image's ID, a volume's image) is not what people change.
func shapeMark(s v1alpha1.MachineShape) string {
	parts := []string{"flavor=" + s.Flavor, "image=" + s.Image}
	if gib := s.RootVolume(); gib > 0 {
		parts = append(parts, "volume="+strconv.Itoa(gib))
		if s.RootVolumeType != "" {
			parts = append(parts, "type="+s.RootVolumeType)
		}
	}
	return fit(strings.Join(parts, ";"))
}

// fit cuts what metadata can't hold: 255 bytes a value.
func fit(s string) string {
	if len(s) <= 255 {
		return s
	}
	return "digest=" + shortDigest(s)
}

// shapeWords names the parts of a shape for people.
var shapeWords = map[string]string{
	"flavor": "flavor", "image": "image", "volume": "size of the root volume in GiB", "type": "type of the root volume", "digest": "shape",
}

// drift reports what of a shape that was asked for once is not what is asked for now.
func drift(have string, s v1alpha1.MachineShape) []string {
	want := shapeMark(s)
	if have == "" || have == want {
		return nil // what carries no mark was not made by this version: nobody can tell
	}
	h, w := splitShape(have), splitShape(want)
	var out []string
	for _, k := range []string{"flavor", "image", "volume", "type", "digest"} {
		if h[k] != w[k] {
			out = append(out, fmt.Sprintf("%s is %s, %s is wanted", shapeWords[k], cmp.Or(h[k], "none"), cmp.Or(w[k], "none")))
		}
	}
	return out
}

func splitShape(s string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(s, ";") {
		k, v, _ := strings.Cut(part, "=")
		out[k] = v
	}
	return out
}

// Drift tells for each wanted machine what differs from its pool's shape in ways that only a new machine mends: flavor, image,
// root volume. A zone that is no longer wanted is no drift.
func (p *Provider) Drift(want provider.Wanted, _ *provider.Inventory) map[string][]string {
	out := map[string][]string{}
	for _, m := range want.Machines {
		s, ok := p.serverOf(m.Name)
		if !ok {
			continue
		}
		if d := drift(s.Metadata[marks.Underscored(marks.KeyShape)], p.shape(m.Role, m.Pool)); len(d) > 0 {
			out[m.Name] = d
		}
	}
	return out
}

// zone returns the availability zone of a machine: the shape's in turn; empty: the cloud chooses.
func zone(s v1alpha1.MachineShape, index int) string {
	if len(s.Zones) == 0 || index < 1 {
		return ""
	}
	return s.Zones[(index-1)%len(s.Zones)]
}

// flavorID finds a flavor by name or ID. All flavors are listed once.
func (p *Provider) flavorID(ctx context.Context, name string) (string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.flavors == nil {
		c, err := p.cloud(ctx)
		if err != nil {
			return "", err
		}
		all, err := cloud.Pages(ctx, flavors.ListDetail(c.Compute, nil), flavors.ExtractFlavors)
		if err != nil {
			return "", cloud.Wrap(err, "list flavors")
		}
		p.lookups.flavors = map[string]string{}
		for _, f := range all {
			p.lookups.flavors[f.Name] = f.ID
		}
		for _, f := range all {
			p.lookups.flavors[f.ID] = f.ID
		}
	}
	if id := p.lookups.flavors[name]; id != "" {
		return id, nil
	}
	return "", fail.New(fail.Refused, "the cloud has no flavor called %s", name).At("machine.flavor").Do("see openstack flavor list")
}

// imageID finds an image by name or ID.
func (p *Provider) imageID(ctx context.Context, name string) (string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if id := p.lookups.images[name]; id != "" {
		return id, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return "", err
	}
	all, err := cloud.Pages(ctx, images.List(c.Image, images.ListOpts{Name: name}), images.ExtractImages)
	if err == nil && len(all) == 0 && uuid.MatchString(name) {
		all, err = cloud.Pages(ctx, images.List(c.Image, images.ListOpts{ID: name}), images.ExtractImages)
	}
	if err != nil {
		return "", cloud.Wrap(err, "look for image %s", name)
	}
	all = slices.DeleteFunc(all, func(i images.Image) bool { return i.Status != images.ImageStatusActive })
	if len(all) != 1 {
		return "", cloud.NotOne(len(all), "images", name, "machine.image")
	}
	if p.lookups.images == nil {
		p.lookups.images = map[string]string{}
	}
	p.lookups.images[name] = all[0].ID
	return all[0].ID, nil
}
