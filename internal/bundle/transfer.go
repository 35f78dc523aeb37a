package bundle

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
)

// An exported file is a tar stream, compressed with zstd: the bundle's manifest with its blobs, by digest, then each set of images with its blobs. No blob
// is in it twice.
const (
	exportManifest = "manifest.json"
	exportSets     = "sets/"
	exportBlobs    = "blobs/sha256/"
	maxManifest    = 8 << 20 // bytes
	maxUnknown     = 4 << 30 // bytes of all blobs of a file without an expected ID; bundles have less than 2 GiB
)

// Export writes a bundle and sets of images as one file; id may be empty. The same content yields the same bytes. Export verifies every blob; a damaged
// one ends it with fail.Invalid, and the output is then unusable.
func (l *Library) Export(ctx context.Context, id string, w io.Writer, sets ...string) error {
	var b *Bundle
	what := strings.Join(sets, ", ")
	if id != "" {
		var err error
		if b, err = l.Get(ctx, id); err != nil {
			return err
		}
		what = b.ID[:12]
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "export bundle")
	}
	t := tar.NewWriter(z)
	if err := errors.Join(l.exportTo(ctx, t, b, sets), t.Close(), z.Close()); err != nil {
		if fail.KindOf(err) != fail.Internal {
			return err
		}
		return ioError(err, "export bundle", what)
	}
	return nil
}

func (l *Library) exportTo(ctx context.Context, t *tar.Writer, b *Bundle, sets []string) error {
	written := map[string]bool{}
	if b != nil {
		data, err := b.Manifest.encode()
		if err != nil {
			return err
		}
		blobs := b.Manifest.byDigest()
		var list []Artifact
		for _, digest := range sortedKeys(blobs) {
			list = append(list, blobs[digest])
		}
		if err := l.exportPart(ctx, t, exportManifest, data, list, written); err != nil {
			return err
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(sets))) {
		s, err := l.Set(name)
		if err != nil {
			return err
		}
		data, err := s.Encode()
		if err != nil {
			return err
		}
		if err := l.exportPart(ctx, t, exportSets+name+".json", data, s.Artifacts(), written); err != nil {
			return err
		}
	}
	return nil
}

// exportPart writes a manifest, and its files unless the archive already holds them.
func (l *Library) exportPart(ctx context.Context, t *tar.Writer, name string, manifest []byte, files []Artifact, written map[string]bool) error {
	if err := t.WriteHeader(exportHeader(name, int64(len(manifest)))); err != nil {
		return err
	}
	if _, err := t.Write(manifest); err != nil {
		return err
	}
	for _, a := range files {
		if written[a.Digest] {
			continue
		}
		written[a.Digest] = true
		if err := l.exportBlob(ctx, t, a); err != nil {
			return err
		}
	}
	return nil
}

func (l *Library) exportBlob(ctx context.Context, t *tar.Writer, a Artifact) error {
	damaged := func(why string) error {
		return fail.New(fail.Invalid, "export %s: %s", a.Name, why).Do("run naupegos bundle verify, then get the bundle again")
	}
	f, err := os.Open(filepath.Join(l.blobDir(), hexOf(a.Digest)))
	if err != nil {
		return damaged(err.Error())
	}
	defer f.Close() // read only
	if info, err := f.Stat(); err != nil || info.Size() != a.Size {
		return damaged("its blob does not have the size that the manifest says")
	}
	if err := t.WriteHeader(exportHeader(exportBlobs+hexOf(a.Digest), a.Size)); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(t, sum), &ctxReader{ctx, f}); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != a.Digest {
		return damaged("its blob has digest " + got)
	}
	return nil
}

func exportHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
}

// byDigest returns the artifacts by digest. If several have the same content, it keeps one.
func (m *Manifest) byDigest() map[string]Artifact {
	out := map[string]Artifact{}
	for _, a := range m.artifacts() {
		out[a.Digest] = a
	}
	return out
}

func (im *importer) blob(a Artifact, size int64, executable bool) error {
	if size != a.Size {
		return fmt.Errorf("%s: has %d bytes, the manifest says %d", a.Name, size, a.Size)
	}
	path := filepath.Join(im.dir, hexOf(a.Digest))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return ioError(err, "import "+a.Name, path)
	}
	sum := sha256.New()
	out := &diskWriter{w: f}
	_, err = io.Copy(io.MultiWriter(out, sum), im.tar)
	closeErr := finish(f, nil, blobMode(executable))
	if out.err != nil || closeErr != nil {
		return ioError(errors.Join(out.err, closeErr), "import "+a.Name, path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != a.Digest {
		return fmt.Errorf("%s: has digest %s, the manifest says %s", a.Name, got, a.Digest)
	}
	return nil
}

// diskWriter remembers whether writing failed, as opposed to reading.
type diskWriter struct {
	w   io.Writer
	err error
}

func (d *diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		d.err = err
	}
	return n, err
}
