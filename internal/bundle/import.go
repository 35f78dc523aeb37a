package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
)

// Imported lists the bundles and sets that Import added.
type Imported struct {
	Bundle *Bundle    // nil: none
	Sets   []AddedSet // they replace those with the same names
	Gone   []string   // images of the replaced sets that the new ones do not have
}

// Import reads a file from Export. It registers bundle and sets only after every blob has matched its digest in the manifest: a missing, changed,
// unknown or duplicate blob ends it with fail.Invalid and leaves the library unchanged. If ids has a complete ID, a bundle or set with an ID that is not
// among ids is fail.Refused: clusters use the newest bundle of a release, and the sets that their documents name. Empty ids do not count.
func (l *Library) Import(ctx context.Context, r io.Reader, ids ...string) (Imported, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	for _, id := range ids {
		if !isHex(id) {
			return Imported{}, fail.New(fail.Invalid, "%q is not the whole ID of a bundle or set", id).Do("give all 64 digits, as naupegos bundle inspect prints them where it was made")
		}
	}
	unlock, err := l.write(ctx, shortWait)
	if err != nil {
		return Imported{}, err
	}
	defer unlock()
	dir, remove, err := l.workDir("import")
	if err != nil {
		return Imported{}, err
	}
	defer remove()
	z, err := zstd.NewReader(&ctxReader{ctx, r}, zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return Imported{}, fail.Wrap(fail.Internal, err, "import bundle")
	}
	defer z.Close()
	im := &importer{lib: l, dir: dir, tar: tar.NewReader(z), ids: ids, waiting: map[string]Artifact{}, staged: map[string]Artifact{}, executables: map[string]bool{}}
	if err := im.read(); err != nil {
		var known *fail.Error
		if errors.As(err, &known) || ctx.Err() != nil {
			return Imported{}, err
		}
		return Imported{}, fail.Wrap(fail.Invalid, err, "import bundle").Do("export it again and compare the files' checksums; nothing was imported")
	}
	return im.register(ctx)
}

// importer stages the content of an exported file in a directory.
type importer struct {
	lib         *Library
	dir         string
	tar         *tar.Reader
	ids         []string // the IDs that bundle and sets may have; empty: any
	bundle      *Manifest
	sets        []Set
	total       int64               // bytes of all blobs
	waiting     map[string]Artifact // blobs that must follow, by digest
	staged      map[string]Artifact
	executables map[string]bool
}

func (im *importer) read() error {
	for first := true; ; first = false {
		h, err := im.tar.Next()
		if errors.Is(err, io.EOF) && !first {
			break
		} else if err != nil && first {
			return fmt.Errorf("this is not an exported bundle: %w", err)
		} else if err != nil {
			return err
		}
		switch {
		case h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%q is not a file", h.Name)
		case first && h.Name == exportManifest:
			err = im.manifest(h)
		case strings.HasPrefix(h.Name, exportSets):
			err = im.set(h)
		case first:
			return fmt.Errorf("this is not an exported bundle: it begins with %q", h.Name)
		default:
			err = im.next(h)
		}
		if err != nil {
			return err
		}
	}
	for _, a := range im.waiting {
		return fmt.Errorf("%s and %d more are missing from the file", a.Name, len(im.waiting)-1)
	}
	return nil
}

// next reads a blob.
func (im *importer) next(h *tar.Header) error {
	digest := "sha256:" + filepath.Base(h.Name)
	a, ok := im.waiting[digest]
	if !ok || h.Name != exportBlobs+hexOf(digest) {
		return fmt.Errorf("%q is in the file but not in the manifest, or there twice", h.Name)
	}
	if err := im.blob(a, h.Size, im.executables[digest]); err != nil {
		return err
	}
	delete(im.waiting, digest)
	im.staged[digest] = a
	return nil
}

// document reads a manifest or a set.
func (im *importer) document(h *tar.Header) ([]byte, error) {
	if h.Size > maxManifest {
		return nil, fmt.Errorf("%s: has %d bytes, and no bundle's has more than %d", h.Name, h.Size, maxManifest)
	}
	return io.ReadAll(im.tar)
}

func (im *importer) manifest(h *tar.Header) error {
	data, err := im.document(h)
	if err != nil {
		return err
	}
	m, err := parseManifest(data)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	canonical, err := m.encode()
	if err != nil {
		return err
	}
	if !bytes.Equal(data, canonical) {
		return errors.New("the manifest is not in its canonical form")
	}
	im.bundle = &m
	for _, a := range m.Binaries {
		im.executables[a.Digest] = true
	}
	blobs := m.byDigest()
	var list []Artifact
	for _, digest := range sortedKeys(blobs) {
		list = append(list, blobs[digest])
	}
	return im.expect(fmt.Sprintf("bundle %s (Kubernetes %s)", idOf(data), m.Title()), idOf(data), list)
}

func (im *importer) set(h *tar.Header) error {
	data, err := im.document(h)
	if err != nil {
		return err
	}
	s, err := ParseSet(data)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	canonical, err := s.Encode()
	if err != nil {
		return err
	}
	switch {
	case !bytes.Equal(data, canonical) || h.Name != exportSets+s.Name+".json":
		return fmt.Errorf("%s is not in its canonical form", h.Name)
	case slices.ContainsFunc(im.sets, func(o Set) bool { return o.Name == s.Name }):
		return fmt.Errorf("%s is in the file twice", h.Name)
	}
	im.sets = append(im.sets, s)
	return im.expect(fmt.Sprintf("set %s, %s", s.Name, idOf(data)), idOf(data), s.Artifacts())
}

// expect checks an ID, and notes the blobs that must follow.
func (im *importer) expect(what, id string, files []Artifact) error {
	if len(im.ids) > 0 && !slices.Contains(im.ids, id) {
		return fail.New(fail.Refused, "the file holds %s, not %s", what, strings.Join(im.ids, " or ")).
			Do("nothing was imported: find out which one is right, and where the file comes from")
	}
	for _, a := range files {
		if _, here := im.staged[a.Digest]; here {
			continue
		}
		if _, known := im.waiting[a.Digest]; !known {
			im.total += a.Size
		}
		im.waiting[a.Digest] = a
	}
	if len(im.ids) == 0 && im.total > maxUnknown {
		return fail.New(fail.Refused, "the file holds %d bytes of programs and images, and without --id at most %d are imported", im.total, int64(maxUnknown)).
			Do("nothing was imported: give --id, the IDs of bundle and sets from where they were made")
	}
	return nil
}

// register makes the staged content part of the library.
func (im *importer) register(ctx context.Context) (Imported, error) {
	var out Imported
	for digest, a := range im.staged {
		if err := im.lib.keep(filepath.Join(im.dir, hexOf(digest)), a); err != nil {
			return out, err
		}
	}
	if im.bundle != nil {
		b, err := im.lib.register(ctx, *im.bundle)
		if err != nil {
			return out, err
		}
		out.Bundle = b
	}
	for _, s := range im.sets {
		if was, err := im.lib.Set(s.Name); err == nil {
			out.Gone = append(out.Gone, was.without(s)...)
		}
		added, err := im.lib.putSet(s)
		if err != nil {
			return out, err
		}
		out.Sets = append(out.Sets, added)
	}
	return out, nil
}

// without returns the images of s that another set does not have.
func (s *Set) without(other Set) []string {
	var gone []string
	for _, i := range s.Images {
		if !slices.ContainsFunc(other.Images, func(o SetImage) bool { return o.Ref() == i.Ref() }) {
			gone = append(gone, i.Ref())
		}
	}
	return gone
}
