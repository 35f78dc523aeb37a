package marks

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// Shape returns the metadata that records a server's requested shape, in the document's own words, for later comparison. The cloud's
// properties of a server (an image's ID, a volume's image) are not what users edit.
func Shape(s v1alpha1.MachineShape) string {
	parts := []string{"flavor=" + s.Flavor, "image=" + s.Image}
	if gib := s.RootVolume(); gib > 0 {
		parts = append(parts, "volume="+strconv.Itoa(gib))
		if s.RootVolumeType != "" {
			parts = append(parts, "type="+s.RootVolumeType)
		}
	}
	return fitting(strings.Join(parts, ";"))
}

// fitting replaces a value that is longer than metadata can hold, 255 bytes, with its digest.
func fitting(s string) string {
	if len(s) <= 255 {
		return s
	}
	return "digest=" + shortDigest(s)
}

// shapeWords names the parts of a shape for display.
var shapeWords = map[string]string{
	"flavor": "flavor", "image": "image", "volume": "size of the root volume in GiB", "type": "type of the root volume", "digest": "shape",
}

// Drift lists the differences between a recorded shape and the wanted one.
func Drift(have string, s v1alpha1.MachineShape) []string {
	want := Shape(s)
	if have == "" || have == want {
		return nil // without a mark it was not made by this version, so its shape is unknown
	}
	h, w := ShapeParts(have), ShapeParts(want)
	var out []string
	for _, k := range []string{"flavor", "image", "volume", "type", "digest"} {
		if h[k] != w[k] {
			out = append(out, fmt.Sprintf("%s is %s, %s is wanted", shapeWords[k], cmp.Or(h[k], "none"), cmp.Or(w[k], "none")))
		}
	}
	return out
}

// ShapeParts returns the parts of a recorded shape by their names.
func ShapeParts(s string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(s, ";") {
		k, v, _ := strings.Cut(part, "=")
		out[k] = v
	}
	return out
}

func shortDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
