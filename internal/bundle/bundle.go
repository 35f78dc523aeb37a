package bundle

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naupegos/naupegos/internal/fail"
)

// Bundle is one registered bundle.
type Bundle struct {
	ID       string // hexadecimal SHA-256 of the canonical manifest
	Manifest Manifest
	Added    time.Time // when it was added to this library
	Latest   time.Time // when it was last added or remade: the newest bundle of a release is used

	blobs string
}

// Path returns the file on disk that holds the blob with this digest ("sha256:<hex>"). No input leads out of the library.
func (b *Bundle) Path(digest string) string { return b.blobs + filepath.Join("/", hexOf(digest)) }

// Binary returns the executable of this name ("kubelet", "cni/bridge"); fail.NotFound if the bundle lacks it.
func (b *Bundle) Binary(name string) (Artifact, error) {
	for _, a := range b.Manifest.Binaries {
		if a.Name == name {
			return a, nil
		}
	}
	return Artifact{}, fail.New(fail.NotFound, "bundle %s has no binary %q", b.ID[:12], name)
}

// Image returns the image of this name ("kube-apiserver"); fail.NotFound if the bundle lacks it.
func (b *Bundle) Image(name string) (Image, error) {
	for _, i := range b.Manifest.Images {
		if i.Name == name {
			return i, nil
		}
	}
	return Image{}, fail.New(fail.NotFound, "bundle %s has no image %q", b.ID[:12], name)
}

// Program writes the executable of this name into a directory after checking its digest, and returns its path. It takes the executable from those for
// hosts, or else from the image of the same name.
func (b *Bundle) Program(ctx context.Context, name, dir string) (string, error) {
	a, err := b.Binary(name)
	if err == nil {
		in, err := b.open(ctx, a)
		if err != nil {
			return "", err
		}
		defer in.Close() // read only
		return placeProgram(ctx, in, filepath.Join(dir, name))
	}
	i, err := b.Image(name)
	if err != nil {
		return "", err
	}
	checked, err := b.open(ctx, i.Archive)
	if err != nil {
		return "", err
	}
	defer checked.Close() // read only
	img, err := tarball.ImageFromPath(b.Path(i.Archive.Digest), nil)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "read image %s of bundle %s", i.Ref, b.ID[:12])
	}
	files := mutate.Extract(img)
	defer files.Close() // read only
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return "", fail.New(fail.NotFound, "image %s of bundle %s holds no executable %s", i.Ref, b.ID[:12], name)
		}
		if err != nil {
			return "", fail.Wrap(fail.Internal, err, "read image %s of bundle %s", i.Ref, b.ID[:12])
		}
		if h.Typeflag == tar.TypeReg && path.Base(h.Name) == name {
			return placeProgram(ctx, r, filepath.Join(dir, name))
		}
	}
}

// open opens a file of the bundle after checking its size and digest.
func (b *Bundle) open(ctx context.Context, a Artifact) (*os.File, error) {
	file := b.Path(a.Digest)
	same, err := sameFile(ctx, file, a)
	if err == nil && !same {
		err = fail.New(fail.Refused, "%s of bundle %s is damaged, or not there", a.Name, b.ID[:12]).At(file).
			Do("naupegos bundle verify %s looks at all of it; build or import the bundle again", b.ID[:12])
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, ioError(err, "read "+a.Name, file)
	}
	return f, nil
}

// placeProgram writes an executable file.
func placeProgram(ctx context.Context, r io.Reader, file string) (string, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o700)
	if err != nil {
		return "", ioError(err, "unpack "+filepath.Base(file), file)
	}
	_, err = io.Copy(f, &ctxReader{ctx, r})
	if err := errors.Join(err, f.Close()); err != nil {
		return "", ioError(err, "unpack "+filepath.Base(file), file)
	}
	return file, nil
}

// Images returns the images that machines of a role need, or all images for an empty role.
func (b *Bundle) Images(role string) []Image {
	var out []Image
	for _, i := range b.Manifest.Images {
		if role == "" || contains(i.Roles, role) {
			out = append(out, i)
		}
	}
	return out
}

// File returns the file of this name among Manifest.Files (SBOMName); fail.NotFound if the bundle lacks it.
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

// Contains reports whether the bundle has a file with this digest.
func (b *Bundle) Contains(digest string) bool {
	_, ok := b.Manifest.byDigest()[digest]
	return ok
}

// Size returns the size of the bundle's blobs in bytes; blobs with several names count once.
func (b *Bundle) Size() int64 {
	var n int64
	for _, a := range b.Manifest.byDigest() {
		n += a.Size
	}
	return n
}
