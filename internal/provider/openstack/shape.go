package openstack

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
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
