package images

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// local is the origin of images in an OCI layout on this host.
type local struct {
	file  string // as named by the user
	dir   layout.Path
	names map[string]v1.Descriptor // by "name:tag"
}

// openLocal opens an OCI layout, or an archive of one or of docker save, and returns the requested images, or all if none is requested.
func openLocal(ctx context.Context, a *bundle.Addition, refs []Reference, from string) (*local, []Reference, error) {
	info, err := os.Stat(from)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Invalid, err, "read images").At(from)
	}
	dir := from
	if !info.IsDir() {
		dir = filepath.Join(a.Dir, "layout")
		if err := a.Space(info.Size()); err != nil {
			return nil, nil, err
		}
		if err := unpack(ctx, from, dir); err != nil {
			return nil, nil, err
		}
	}
	l := &local{file: from, dir: layout.Path(dir), names: map[string]v1.Descriptor{}}
	all, err := l.index()
	if err != nil {
		return nil, nil, err
	}
	return l.choose(all, refs)
}

// index reads index.json.
func (l *local) index() ([]v1.Descriptor, error) {
	raw, err := os.ReadFile(filepath.Join(string(l.dir), "index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail.New(fail.Invalid, "%s is neither an OCI layout nor an archive of one or of docker save", l.file)
	} else if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read images").At(l.file)
	}
	var m v1.IndexManifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read index.json").At(l.file)
	}
	if len(m.Manifests) == 0 {
		return nil, fail.New(fail.Invalid, "%s holds no image", l.file)
	}
	return m.Manifests, nil
}

// nameIn returns the name that an image has in a layout: containerd, docker and podman write it to different annotations.
func nameIn(d v1.Descriptor) (Reference, bool) {
	for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name", "com.github.containers.image.name"} {
		if text := d.Annotations[key]; strings.ContainsAny(text, "/:") {
			if r, err := ParseReference(text); err == nil {
				return r, true
			}
		}
	}
	return Reference{}, false
}

func (l *local) choose(all []v1.Descriptor, refs []Reference) (*local, []Reference, error) {
	var named []Reference
	for _, d := range all {
		if r, ok := nameIn(d); ok {
			l.names[r.Name+":"+r.Tag] = d
			named = append(named, r)
		}
	}
	var known []string
	for _, r := range named {
		known = append(known, r.Name+":"+r.Tag)
	}
	switch {
	case len(refs) == 0 && len(named) == 0:
		return nil, nil, fail.New(fail.Invalid, "the images in %s have no names", l.file).Do("name the image behind the file: naupegos bundle add image NAME:TAG --from %s", l.file)
	case len(refs) == 0:
		return l, named, nil
	}
	for _, r := range refs {
		at := r.Name + ":" + r.Tag
		_, found := l.names[at]
		byDigest := slices.IndexFunc(all, func(d v1.Descriptor) bool { return d.Digest.String() == r.Digest })
		switch {
		case found:
		case byDigest >= 0:
			l.names[at] = all[byDigest]
		case len(all) == 1 && len(refs) == 1 && len(named) == 0:
			l.names[at] = all[0]
		default:
			return nil, nil, fail.New(fail.NotFound, "%s does not hold %s", l.file, r.String()).Do("it holds %s", orNone(known))
		}
	}
	return l, refs, nil
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "images without names"
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (l *local) resolve(ctx context.Context, r Reference) ([]byte, string, error) {
	d, ok := l.names[r.Name+":"+r.Tag]
	if !ok || r.Digest != "" && r.Digest != d.Digest.String() {
		return l.child(ctx, r)
	}
	raw, err := l.read(ctx, r, d.Digest.String())
	return raw, string(d.MediaType), err
}

// child reads a manifest that an index names.
func (l *local) child(ctx context.Context, r Reference) ([]byte, string, error) {
	raw, err := l.read(ctx, r, r.Digest)
	if err != nil {
		return nil, "", err
	}
	var m struct {
		MediaType string            `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, "", fail.Wrap(fail.Invalid, err, "read the manifest of %s", r.Text).At(l.file)
	}
	if m.MediaType == "" {
		m.MediaType = "application/vnd.oci.image.manifest.v1+json" // OCI makes the field optional
	}
	return raw, m.MediaType, nil
}

func (l *local) read(ctx context.Context, r Reference, digest string) ([]byte, error) {
	in, err := l.open(ctx, r, bundle.SetBlob{Digest: digest})
	if err != nil {
		return nil, err
	}
	defer in.Close() // only read
	raw, err := io.ReadAll(io.LimitReader(in, maxManifest))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read %s", r.Text).At(l.file)
	}
	if digestOf(raw) != digest {
		return nil, fail.New(fail.Refused, "%s: a manifest does not have the digest that its name says: %s", r.Text, digest).At(l.file)
	}
	return raw, nil
}

func (l *local) open(_ context.Context, r Reference, b bundle.SetBlob) (io.ReadCloser, error) {
	h, err := v1.NewHash(b.Digest)
	if err != nil || h.Algorithm != "sha256" {
		return nil, fail.New(fail.Invalid, "%s names a file with digest %q", r.Text, b.Digest).At(l.file)
	}
	in, err := l.dir.Blob(h)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "%s is not whole", l.file).Do("save it again; --platform selects platforms that it holds")
	}
	return in, nil
}

// unpack makes an OCI layout in dir from an archive, which may be compressed with gzip.
func unpack(ctx context.Context, file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "read images").At(file)
	}
	defer f.Close() // only read
	in, err := plain(f)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "read images").At(file)
	}
	isLayout, err := untar(ctx, in, file, dir)
	if err != nil || isLayout {
		return err
	}
	return fromDocker(file, dir)
}

// plain returns a reader that decompresses compressed input.
func plain(f *os.File) (io.Reader, error) {
	head := make([]byte, 2)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return nil, errors.New("the file is empty")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if head[0] == 0x1f && head[1] == 0x8b {
		return gzip.NewReader(f)
	}
	return f, nil
}

// untar unpacks only the files of an OCI layout. It reports whether there is an index.
func untar(ctx context.Context, in io.Reader, file, dir string) (isLayout bool, _ error) {
	for t := tar.NewReader(in); ; {
		if err := ctx.Err(); err != nil {
			return false, fail.Wrap(fail.Interrupted, err, "read images").At(file)
		}
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return isLayout, nil
		} else if err != nil {
			return false, fail.Wrap(fail.Invalid, err, "read images").At(file).Do("the file is neither a tar archive nor one that is compressed with gzip")
		}
		name := path.Clean(h.Name)
		digest, isBlob := strings.CutPrefix(name, "blobs/sha256/")
		isBlob = isBlob && digestText.MatchString("sha256:"+digest)
		if h.Typeflag != tar.TypeReg || !isBlob && name != "index.json" {
			continue
		}
		isLayout = isLayout || name == "index.json"
		if err := unpackFile(filepath.Join(dir, name), t); err != nil {
			return false, fail.Wrap(fail.Refused, err, "unpack images").At(file).Do("free space on the disk of the bundle library, or name another one with --library")
		}
	}
}

func unpackFile(file string, in io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// fromDocker makes an OCI layout from the output of older versions of docker save: uncompressed layers, and a list in manifest.json.
func fromDocker(file, dir string) error {
	opener := func() (io.ReadCloser, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		in, err := plain(f)
		return readCloser{in, f}, err
	}
	bad := func(err error) error {
		return fail.Wrap(fail.Invalid, err, "%s is neither an OCI layout nor an archive of one or of docker save", file)
	}
	list, err := tarball.LoadManifest(opener)
	if err != nil {
		return bad(err)
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "unpack images").At(dir)
	}
	for n, d := range list {
		img, err := imageOf(opener, d, n, len(list))
		if err != nil {
			return bad(err)
		}
		tags := d.RepoTags
		if len(tags) == 0 {
			tags = []string{""}
		}
		for _, tag := range tags {
			if err := to.AppendImage(img, layout.WithAnnotations(map[string]string{"io.containerd.image.name": tag})); err != nil {
				return fail.Wrap(fail.Refused, err, "unpack %s of %s", tag, file)
			}
		}
	}
	return nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// imageOf reads one of the images listed in an archive.
func imageOf(opener tarball.Opener, d tarball.Descriptor, n, of int) (v1.Image, error) {
	if len(d.RepoTags) == 0 {
		if of > 1 {
			return nil, fmt.Errorf("image %d of %d has no name", n+1, of)
		}
		return tarball.Image(opener, nil)
	}
	tag, err := name.NewTag(d.RepoTags[0], name.WeakValidation)
	if err != nil {
		return nil, err
	}
	return tarball.Image(opener, &tag)
}
