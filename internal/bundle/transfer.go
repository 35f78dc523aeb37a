package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
)

// An exported bundle is a tar stream, compressed with zstd: first the manifest, then every blob once, by digest.
const (
	exportManifest = "manifest.json"
	exportBlobs    = "blobs/sha256/"
	maxManifest    = 8 << 20 // bytes
	maxUnknown     = 4 << 30 // bytes of all blobs of a bundle that was not named; bundles have less than 2 GiB
)

// Export writes a bundle as one file. The same bundle yields the same bytes. Export verifies every blob; a damaged one ends it with
// fail.Invalid, and the output is then unusable.
func (l *Library) Export(ctx context.Context, id string, w io.Writer) error {
	b, err := l.Get(ctx, id)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "export bundle")
	}
	t := tar.NewWriter(z)
	if err := errors.Join(l.exportTo(ctx, t, b), t.Close(), z.Close()); err != nil {
		if fail.KindOf(err) != fail.Internal {
			return err
		}
		return ioError(err, "export bundle", b.ID[:12])
	}
	return nil
}

func (l *Library) exportTo(ctx context.Context, t *tar.Writer, b *Bundle) error {
	data, err := b.Manifest.encode()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(exportHeader(exportManifest, int64(len(data)))); err != nil {
		return err
	}
	if _, err := t.Write(data); err != nil {
		return err
	}
	blobs := b.Manifest.byDigest()
	for _, digest := range sortedKeys(blobs) {
		if err := l.exportBlob(ctx, t, blobs[digest]); err != nil {
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

// size returns the size of all artifacts in bytes; each digest counts once.
func (m *Manifest) size() int64 {
	var total int64
	for _, a := range m.byDigest() {
		total += a.Size // check has bounded the sum
	}
	return total
}

// byDigest returns the artifacts by digest. If several have the same content, it keeps one.
func (m *Manifest) byDigest() map[string]Artifact {
	out := map[string]Artifact{}
	for _, a := range m.artifacts() {
		out[a.Digest] = a
	}
	return out
}

// Import reads a file from Export. It registers the bundle only after every blob has matched its digest in the manifest: a missing, changed,
// unknown or duplicate blob ends it with fail.Invalid and leaves the library unchanged. If id, a complete ID, is not empty, a bundle with
// another ID is fail.Refused: the library uses the newest bundle of a release for all its clusters.
func (l *Library) Import(ctx context.Context, r io.Reader, id string) (*Bundle, error) {
	if id != "" && !isHex(id) {
		return nil, fail.New(fail.Invalid, "%q is not the whole ID of a bundle", id).Do("give all 64 digits, as naupegos bundle inspect prints them where the bundle was made")
	}
	unlock, err := l.write(ctx, shortWait)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir, remove, err := l.workDir("import")
	if err != nil {
		return nil, err
	}
	defer remove()
	z, err := zstd.NewReader(&ctxReader{ctx, r}, zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "import bundle")
	}
	defer z.Close()
	im := &importer{lib: l, dir: dir, tar: tar.NewReader(z), id: id}
	m, err := im.read()
	if err != nil {
		var known *fail.Error
		if errors.As(err, &known) || ctx.Err() != nil {
			return nil, err
		}
		return nil, fail.Wrap(fail.Invalid, err, "import bundle").Do("export it again and compare the files' checksums; nothing was imported")
	}
	for digest, a := range m.byDigest() {
		if err := l.keep(filepath.Join(dir, hexOf(digest)), a); err != nil {
			return nil, err
		}
	}
	return l.register(ctx, m)
}

// importer stages an exported bundle in a directory.
type importer struct {
	lib *Library
	dir string
	tar *tar.Reader
	id  string // the bundle's required ID; empty: any
}

func (im *importer) read() (Manifest, error) {
	m, err := im.manifest()
	if err != nil {
		return m, err
	}
	executables := map[string]bool{}
	for _, a := range m.Binaries {
		executables[a.Digest] = true
	}
	waiting := m.byDigest()
	for {
		h, err := im.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return m, err
		}
		digest := "sha256:" + filepath.Base(h.Name)
		a, ok := waiting[digest]
		if !ok || h.Name != exportBlobs+hexOf(digest) || h.Typeflag != tar.TypeReg {
			return m, fmt.Errorf("%q is in the file but not in the manifest, or there twice", h.Name)
		}
		if err := im.blob(a, h.Size, executables[digest]); err != nil {
			return m, err
		}
		delete(waiting, digest)
	}
	for _, a := range waiting {
		return m, fmt.Errorf("%s and %d more are missing from the file", a.Name, len(waiting)-1)
	}
	return m, nil
}

func (im *importer) manifest() (Manifest, error) {
	h, err := im.tar.Next()
	if err != nil {
		return Manifest{}, fmt.Errorf("this is not an exported bundle: %w", err)
	}
	switch {
	case h.Name != exportManifest || h.Typeflag != tar.TypeReg:
		return Manifest{}, fmt.Errorf("this is not an exported bundle: it begins with %q", h.Name)
	case h.Size > maxManifest:
		return Manifest{}, fmt.Errorf("%s: has %d bytes, and no bundle's has more than %d", exportManifest, h.Size, maxManifest)
	}
	data, err := io.ReadAll(im.tar)
	if err != nil {
		return Manifest{}, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	canonical, err := m.encode()
	if err != nil {
		return m, err
	}
	if !bytes.Equal(data, canonical) {
		return m, errors.New("the manifest is not in its canonical form")
	}
	if total := m.size(); im.id == "" && total > maxUnknown {
		return m, fail.New(fail.Refused, "the file holds %d bytes of programs and images, and without --id at most %d are imported", total, int64(maxUnknown)).
			Do("nothing was imported: give --id, the bundle's ID from where it was made")
	}
	if got := idOf(data); im.id != "" && got != im.id {
		return m, fail.New(fail.Refused, "the file holds bundle %s (Kubernetes %s), not %s", got, m.Title(), im.id).
			Do("nothing was imported: find out which one is right, and where the file comes from")
	}
	return m, nil
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
