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

// shapeMark returns the metadata that records a server's requested shape, in the document's own words, for later comparison. The cloud's
// properties of a server (an image's ID, a volume's image) are not what users edit.
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

// fit replaces a value that is longer than metadata can hold, 255 bytes, with its digest.
func fit(s string) string {
	if len(s) <= 255 {
		return s
	}
	return "digest=" + shortDigest(s)
}

// shapeWords names the parts of a shape for display.
var shapeWords = map[string]string{
	"flavor": "flavor", "image": "image", "volume": "size of the root volume in GiB", "type": "type of the root volume", "digest": "shape",
}

// drift lists the differences between a recorded shape and the wanted one.
func drift(have string, s v1alpha1.MachineShape) []string {
	want := shapeMark(s)
	if have == "" || have == want {
		return nil // without a mark it was not made by this version, so its shape is unknown
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

// Drift lists for each wanted machine the differences from its pool's shape that require a new machine: flavor, image, root volume. A zone
// that is no longer wanted is no drift.
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

// zone returns the availability zone of a machine, from the shape's zones in turn; empty if the cloud chooses.
func zone(s v1alpha1.MachineShape, index int) string {
	if len(s.Zones) == 0 || index < 1 {
		return ""
	}
	return s.Zones[(index-1)%len(s.Zones)]
}
