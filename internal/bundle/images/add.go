package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
)

// Options are the source and the destination of images.
type Options struct {
	Set       string   // empty: bundle.DefaultSet
	Platforms []string // "linux/arm64"; empty: this host's
	From      string   // an OCI layout or an archive; empty: the registries in the images' names
	Access    Access   // to registries
	Progress  func(bundle.Event)
}

// origin is a source of images.
type origin interface {
	// resolve returns the manifest or the index of a reference, and its media type.
	resolve(ctx context.Context, r Reference) (raw []byte, mediaType string, err error)
	// open opens a file of an image.
	open(ctx context.Context, r Reference, b bundle.SetBlob) (io.ReadCloser, error)
}

// parallel is the number of files fetched at the same time.
const parallel = 3

// maxManifest bounds a manifest's bytes, and maxConfig those of an image's configuration.
const (
	maxManifest = 8 << 20
	maxConfig   = 8 << 20
)

// Added is the result of Add.
type Added struct {
	Set    bundle.AddedSet   `json:"set"`
	Images []bundle.SetImage `json:"images"` // number of added images
}

// Add reads images into a set of the library. If one of them can't be read, it adds none. Without references, it adds all images of o.From.
func Add(ctx context.Context, lib *bundle.Library, refs []Reference, o Options) (Added, error) {
	if o.Set == "" {
		o.Set = bundle.DefaultSet
	}
	platforms, err := parsePlatforms(o.Platforms)
	if err != nil {
		return Added{}, err
	}
	if o.From == "" {
		if err := o.Access.Check(refs); err != nil {
			return Added{}, err
		}
	}
	var out Added
	out.Set, err = lib.AddImages(ctx, o.Set, o.Progress, func(a *bundle.Addition) ([]bundle.SetImage, error) {
		from, refs, err := openOrigin(ctx, a, refs, o)
		if err != nil {
			return nil, err
		}
		c := &collector{from: from, platforms: platforms, raw: map[string][]byte{}, open: map[string]wantedBlob{}}
		for _, r := range refs {
			i, err := c.image(ctx, r)
			if err != nil {
				return nil, err
			}
			out.Images = append(out.Images, i)
		}
		return out.Images, c.store(ctx, a)
	})
	return out, err
}

func openOrigin(ctx context.Context, a *bundle.Addition, refs []Reference, o Options) (origin, []Reference, error) {
	if o.From == "" {
		reg, err := newRegistry(o.Access)
		return reg, refs, err
	}
	return openLocal(ctx, a, refs, o.From)
}

func parsePlatforms(list []string) ([]v1.Platform, error) {
	if len(list) == 0 {
		list = []string{"linux/" + runtime.GOARCH}
	}
	var out []v1.Platform
	for _, text := range list {
		p, err := v1.ParsePlatform(text)
		if err != nil || p.OS != "linux" || p.Architecture == "" || p.OSVersion != "" {
			return nil, fail.New(fail.Invalid, "%q is not a platform of machines", text).Do("use linux/amd64 or linux/arm64")
		}
		out = append(out, *p)
	}
	return out, nil
}

// wantedBlob is a file to be stored, and its image.
type wantedBlob struct {
	bundle.SetBlob
	ref Reference
}

// collector reads the manifests of images, and collects their files.
type collector struct {
	from      origin
	platforms []v1.Platform
	raw       map[string][]byte // manifests and configurations, by digest
	open      map[string]wantedBlob
}

func (c *collector) image(ctx context.Context, r Reference) (bundle.SetImage, error) {
	raw, mediaType, err := c.from.resolve(ctx, r)
	if err != nil {
		return bundle.SetImage{}, err
	}
	i := bundle.SetImage{Name: r.Name, Tag: r.Tag, Digest: digestOf(raw)}
	if r.Digest != "" && r.Digest != i.Digest {
		return i, fail.New(fail.Refused, "%s is not the pinned image: %s", r.Text, i.Digest).Do("find out which one is right")
	}
	switch types.MediaType(mediaType) {
	case types.OCIImageIndex, types.DockerManifestList:
		err = c.index(ctx, r, &i, raw, mediaType)
	case types.OCIManifestSchema1, types.DockerManifestSchema2:
		err = c.single(ctx, r, &i, raw, mediaType)
	default:
		err = fail.New(fail.Invalid, "%s is not a container image: its media type is %s", r.Text, mediaType)
	}
	return i, err
}

func (c *collector) add(r Reference, i *bundle.SetImage, b bundle.SetBlob, raw []byte) {
	if !slices.ContainsFunc(i.Blobs, func(o bundle.SetBlob) bool { return o.Digest == b.Digest }) {
		i.Blobs = append(i.Blobs, b)
	}
	c.open[b.Digest] = wantedBlob{b, r}
	if raw != nil {
		c.raw[b.Digest] = raw
	}
}

// index adds an index and the manifests of the wanted platforms.
func (c *collector) index(ctx context.Context, r Reference, i *bundle.SetImage, raw []byte, mediaType string) error {
	var m v1.IndexManifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return fail.Wrap(fail.Invalid, err, "read the index of %s", r.Text)
	}
	c.add(r, i, bundle.SetBlob{Digest: i.Digest, Size: int64(len(raw)), MediaType: mediaType}, raw)
	for _, want := range c.platforms {
		n := slices.IndexFunc(m.Manifests, func(d v1.Descriptor) bool { return d.Platform != nil && d.Platform.Satisfies(want) })
		if n < 0 {
			return fail.New(fail.NotFound, "%s has no image for %s", r.Text, want.String()).Do("it has %s", platformsOf(m))
		}
		child := r
		child.Digest = m.Manifests[n].Digest.String()
		raw, mediaType, err := c.from.resolve(ctx, child)
		if err != nil {
			return err
		}
		if got := digestOf(raw); got != child.Digest {
			return fail.New(fail.Refused, "%s: the manifest for %s has digest %s, not %s", r.Text, want.String(), got, child.Digest)
		}
		if err := c.manifest(ctx, r, i, raw, mediaType, []v1.Platform{want}); err != nil {
			return err
		}
	}
	return nil
}

// single adds an image without an index: it is for one platform.
func (c *collector) single(ctx context.Context, r Reference, i *bundle.SetImage, raw []byte, mediaType string) error {
	return c.manifest(ctx, r, i, raw, mediaType, c.platforms)
}

// manifest adds a manifest with its configuration and layers. The image must be for one of the platforms.
func (c *collector) manifest(ctx context.Context, r Reference, i *bundle.SetImage, raw []byte, mediaType string, platforms []v1.Platform) error {
	var m v1.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return fail.Wrap(fail.Invalid, err, "read the manifest of %s", r.Text)
	}
	if !m.Config.MediaType.IsConfig() {
		return fail.New(fail.Invalid, "%s is not a container image: its configuration has media type %s", r.Text, m.Config.MediaType)
	}
	c.add(r, i, bundle.SetBlob{Digest: digestOf(raw), Size: int64(len(raw)), MediaType: mediaType}, raw)
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if !digestText.MatchString(d.Digest.String()) || d.Size < 0 {
			return fail.New(fail.Invalid, "%s: its manifest names a file without a sha256 digest or a size", r.Text)
		}
		c.add(r, i, bundle.SetBlob{Digest: d.Digest.String(), Size: d.Size, MediaType: string(d.MediaType)}, nil)
	}
	config, err := c.config(ctx, r, m.Config)
	if err != nil {
		return err
	}
	is := v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}
	n := slices.IndexFunc(platforms, func(want v1.Platform) bool {
		return want.OS == is.OS && want.Architecture == is.Architecture && (want.Variant == "" || is.Variant == "" || want.Variant == is.Variant)
	})
	if n < 0 {
		return fail.New(fail.Refused, "%s is for %s", r.Text, is.String()).Do("the machines would not run it; --platform %s adds it all the same", is.String())
	}
	if p := platforms[n].String(); !slices.Contains(i.Platforms, p) {
		i.Platforms = append(i.Platforms, p)
	}
	return nil
}

func (c *collector) config(ctx context.Context, r Reference, d v1.Descriptor) (v1.ConfigFile, error) {
	var config v1.ConfigFile
	if d.Size > maxConfig {
		return config, fail.New(fail.Invalid, "the configuration of %s has %d bytes", r.Text, d.Size)
	}
	in, err := c.from.open(ctx, r, bundle.SetBlob{Digest: d.Digest.String(), Size: d.Size})
	if err != nil {
		return config, err
	}
	defer in.Close() // only read
	raw, err := io.ReadAll(io.LimitReader(in, maxConfig))
	if err != nil {
		return config, fail.Wrap(fail.Unreachable, err, "read the configuration of %s", r.Text)
	}
	if digestOf(raw) != d.Digest.String() {
		return config, fail.New(fail.Refused, "%s: its configuration does not have the digest in its manifest", r.Text)
	}
	c.raw[d.Digest.String()] = raw
	if err := json.Unmarshal(raw, &config); err != nil {
		return config, fail.Wrap(fail.Invalid, err, "read the configuration of %s", r.Text)
	}
	return config, nil
}

// store stores the files that the library lacks.
func (c *collector) store(ctx context.Context, a *bundle.Addition) error {
	var files []bundle.Artifact
	for _, digest := range slices.Sorted(maps.Keys(c.open)) {
		files = append(files, bundle.Artifact{Name: c.open[digest].ref.Name, Digest: digest, Size: c.open[digest].Size})
	}
	missing, err := a.Missing(ctx, files)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range missing {
		group.Go(func() error {
			if raw, ok := c.raw[f.Digest]; ok {
				return a.Store(ctx, f, bytes.NewReader(raw))
			}
			in, err := c.from.open(ctx, c.open[f.Digest].ref, c.open[f.Digest].SetBlob)
			if err != nil {
				return err
			}
			defer in.Close() // only read
			return a.Store(ctx, f, in)
		})
	}
	return group.Wait()
}

func platformsOf(m v1.IndexManifest) string {
	var out []string
	for _, d := range m.Manifests {
		if d.Platform != nil && d.Platform.OS != "unknown" {
			out = append(out, d.Platform.String())
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
