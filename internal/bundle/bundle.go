package bundle

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Bundle is one registered bundle.
type Bundle struct {
	ID       string // hexadecimal SHA-256 of the canonical manifest
	Manifest Manifest
	Added    time.Time // when it came into this library

	blobs string
}

// Path returns the file on disk that holds the blob with this digest ("sha256:<hex>").
func (b *Bundle) Path(digest string) string { return filepath.Join(b.blobs, hexOf(digest)) }

// Binary returns the executable of this name ("kubelet", "cni/bridge"). fail.NotFound where the bundle lacks it.
func (b *Bundle) Binary(name string) (Artifact, error) {
	for _, a := range b.Manifest.Binaries {
		if a.Name == name {
			return a, nil
		}
	}
	return Artifact{}, fail.New(fail.NotFound, "bundle %s has no binary %q", b.ID[:12], name)
}

// Image returns the image of this name ("kube-apiserver"). fail.NotFound where the bundle lacks it.
func (b *Bundle) Image(name string) (Image, error) {
	for _, i := range b.Manifest.Images {
		if i.Name == name {
			return i, nil
		}
	}
	return Image{}, fail.New(fail.NotFound, "bundle %s has no image %q", b.ID[:12], name)
}

// Images returns the images that machines of a role need; with an empty role all of them.
func (b *Bundle) Images(role string) []Image {
	var out []Image
	for _, i := range b.Manifest.Images {
		if role == "" || contains(i.Roles, role) {
			out = append(out, i)
		}
	}
	return out
}

// File returns the other file of this name (SBOMName). fail.NotFound where the bundle lacks it.
func (b *Bundle) File(name string) (Artifact, error) {
	for _, a := range b.Manifest.Files {
		if a.Name == name {
			return a, nil
		}
	}
	return Artifact{}, fail.New(fail.NotFound, "bundle %s has no file %q", b.ID[:12], name)
}

// MarshalJSON shows the bundle with its ID beside the manifest's fields.
func (b *Bundle) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID    string    `json:"id"`
		Added time.Time `json:"added"`
		Manifest
	}{b.ID, b.Added.UTC().Truncate(time.Second), b.Manifest})
}

// Size returns the bytes that the bundle's blobs take.
func (b *Bundle) Size() int64 {
	var n int64
	for _, a := range b.Manifest.byDigest() {
		n += a.Size
	}
	return n
}
