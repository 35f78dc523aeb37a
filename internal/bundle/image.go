package bundle

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/naupegos/naupegos/internal/bundle/content"
	"github.com/naupegos/naupegos/internal/fail"
)

// imageSpec describes one image: its files, all in one layer, and how to run it.
type imageSpec struct {
	Name  string
	Tag   string
	Roles []string
	Entry []string
	User  string
	Ports []string
	Files []content.File
}

func (s imageSpec) ref() string { return Repository + "/" + s.Name + ":" + s.Tag }

// writeImage assembles an image and stores its archive. The archive is both an OCI layout and in the format of docker save: containerd takes
// the manifest's digest unchanged from the layout, docker and podman read manifest.json. The layer is not compressed: a machine imports it
// in a third of the time, and an exported bundle is compressed as a whole.
func (l *Library) writeImage(ctx context.Context, s imageSpec) (Image, error) {
	dir, remove, err := l.workDir("image")
	if err != nil {
		return Image{}, err
	}
	defer remove()
	layer, err := writeLayer(ctx, filepath.Join(dir, "layer.tar"), s.Files)
	if err != nil {
		return Image{}, err
	}
	config, manifest, err := s.documents(layer)
	if err != nil {
		return Image{}, err
	}
	pr, pw := io.Pipe()
	go func() {
		pw.CloseWithError(writeArchive(pw, s.ref(), filepath.Join(dir, "layer.tar"), layer, config, manifest))
	}()
	archive, err := l.addBlob(ctx, "image/"+s.Name, pr, 0o644)
	pr.CloseWithError(err) // ends the writer if addBlob has stopped early
	if err != nil {
		return Image{}, err
	}
	return Image{Name: s.Name, Ref: s.ref(), ID: digestOf(manifest), Archive: archive, Roles: s.Roles}, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// writeLayer writes the files as a tar stream that depends only on them.
func writeLayer(ctx context.Context, file string, files []content.File) (Artifact, error) {
	out, err := os.Create(file)
	if err != nil {
		return Artifact{}, ioError(err, "write image layer", file)
	}
	sum := sha256.New()
	count := &countWriter{w: io.MultiWriter(out, sum)}
	w := tar.NewWriter(count)
	err = errors.Join(content.Write(ctx, w, files), w.Close(), out.Close())
	if err != nil {
		return Artifact{}, ioError(err, "write image layer", file)
	}
	return Artifact{Name: "layer", Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: count.n}, nil
}

// documents returns the image's configuration and manifest.
func (s imageSpec) documents(layer Artifact) (config, manifest []byte, err error) {
	diff, err := v1.NewHash(layer.Digest)
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, "make image").At(s.Name)
	}
	ports := map[string]struct{}{}
	for _, p := range s.Ports {
		ports[p] = struct{}{}
	}
	_, arch, _ := strings.Cut(hostPlatform(), "/")
	config, err = json.Marshal(v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: v1.Time{Time: time.Unix(0, 0).UTC()},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
		Config: v1.Config{Entrypoint: s.Entry, User: s.User, ExposedPorts: ports, WorkingDir: "/",
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
	})
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, "make image").At(s.Name)
	}
	configHash, err := v1.NewHash(digestOf(config))
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, "make image").At(s.Name)
	}
	manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config)), Digest: configHash},
		Layers: []v1.Descriptor{{MediaType: types.OCIUncompressedLayer, Size: layer.Size, Digest: diff}},
	})
	if err != nil {
		return nil, nil, fail.Wrap(fail.Internal, err, "make image").At(s.Name)
	}
	return config, manifest, nil
}

// writeArchive writes the tarball.
func writeArchive(out io.Writer, ref, layerFile string, layer Artifact, config, manifest []byte) error {
	blob := func(digest string) string { return "blobs/sha256/" + hexOf(digest) }
	id, err := v1.NewHash(digestOf(manifest))
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(path.Base(ref), ":")
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: types.OCIManifestSchema1, Size: int64(len(manifest)), Digest: id,
		Annotations: map[string]string{"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": tag},
	}}})
	if err != nil {
		return err
	}
	docker, err := json.Marshal([]map[string]any{{"Config": blob(digestOf(config)), "RepoTags": []string{ref}, "Layers": []string{blob(layer.Digest)}}})
	if err != nil {
		return err
	}
	files := []content.File{
		{Path: "oci-layout", Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {Path: "index.json", Data: index}, {Path: "manifest.json", Data: docker},
		{Path: blob(digestOf(manifest)), Data: manifest}, {Path: blob(digestOf(config)), Data: config}, {Path: blob(layer.Digest), Source: layerFile},
	}
	w := tar.NewWriter(out)
	for _, f := range files {
		f.Mode = 0o644
		if err := content.Add(w, f); err != nil {
			return err
		}
	}
	return w.Close()
}

type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
