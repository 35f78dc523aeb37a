package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func export(t *testing.T, l *Library, id string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := l.Export(context.Background(), id, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestExportThenImport(t *testing.T) {
	ctx, from, to := context.Background(), newLibrary(t), newLibrary(t)
	b := addBundle(t, from, "v1.36.3", "")
	file := export(t, from, b.ID)
	if !bytes.Equal(file, export(t, from, b.ID)) {
		t.Error("two exports differ")
	}
	for range 2 { // a repeated import is harmless
		got, err := to.Import(ctx, bytes.NewReader(file), "")
		if err != nil {
			t.Fatal(err)
		}
		if got.Bundle.ID != b.ID {
			t.Errorf("ID %s became %s", b.ID, got.Bundle.ID)
		}
		if err := to.Verify(ctx, got.Bundle.ID); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(blobPath(to, b.Manifest.Binaries[0]))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("imported binary has mode %v, %v", info.Mode(), err)
	}
	if !bytes.Equal(file, export(t, to, b.ID)) {
		t.Error("the imported bundle is exported differently")
	}
}

// TestImportOfAnotherBundle: an import with an ID accepts only the bundle with this ID.
func TestImportOfAnotherBundle(t *testing.T) {
	ctx := context.Background()
	from, to := newLibrary(t), newLibrary(t)
	b, other := addBundle(t, from, "v1.36.3", ""), addBundle(t, from, "v1.36.3", "other")
	file := export(t, from, b.ID)
	_, err := to.Import(ctx, bytes.NewReader(file), other.ID)
	wantKind(t, err, fail.Refused, b.ID, other.ID, "nothing was imported")
	for _, short := range []string{b.ID[:12], "v1.36.3", b.ID + "0"} {
		_, err = to.Import(ctx, bytes.NewReader(file), short)
		wantKind(t, err, fail.Invalid, "all 64 digits")
	}
	if left := append(names(t, to.blobDir()), names(t, to.manifestDir())...); len(left) > 0 {
		t.Errorf("in the library: %v", left)
	}
	if got, err := to.Import(ctx, bytes.NewReader(file), b.ID); err != nil || got.Bundle.ID != b.ID {
		t.Errorf("%v, %v", got, err)
	}
}

func TestExportRefusesDamage(t *testing.T) {
	l := newLibrary(t)
	b := addBundle(t, l, "v1.36.3", "")
	flip(t, blobPath(l, b.Manifest.Binaries[1]), 0)
	wantKind(t, l.Export(context.Background(), b.ID, io.Discard), fail.Invalid, b.Manifest.Binaries[1].Name)
	if err := os.Remove(blobPath(l, b.Manifest.Binaries[1])); err != nil {
		t.Fatal(err)
	}
	wantKind(t, l.Export(context.Background(), b.ID, io.Discard), fail.Invalid, b.Manifest.Binaries[1].Name)
}

// entry is one file of a tar stream.
type entry struct {
	header tar.Header
	data   []byte
}

func unpackExport(t *testing.T, file []byte) []entry {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var out []entry
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, entry{*h, data})
	}
}

func packExport(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		if e.header.Typeflag == tar.TypeReg {
			e.header.Size = int64(len(e.data))
		}
		if err := w.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestImportRefusesTampering(t *testing.T) {
	from := newLibrary(t)
	b := addBundle(t, from, "v1.36.3", "")
	file := export(t, from, b.ID)
	regular := func(name string, data []byte) entry {
		return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, data}
	}
	edit := func(change func([]entry) []entry) func() []byte {
		return func() []byte { return packExport(t, change(unpackExport(t, file))) }
	}
	for name, tampered := range map[string]func() []byte{
		"nothing":      func() []byte { return nil },
		"no bundle":    func() []byte { return filler(1000) },
		"cut off":      func() []byte { return file[:len(file)/2] },
		"cut at end":   func() []byte { return file[:len(file)-5] },
		"flipped byte": edit(func(e []entry) []entry { e[2].data[0] ^= 1; return e }),
		"shorter":      edit(func(e []entry) []entry { e[2].data = e[2].data[1:]; return e }),
		"missing blob": edit(func(e []entry) []entry { return e[:len(e)-1] }),
		"twice":        edit(func(e []entry) []entry { return append(e, e[1]) }),
		"surplus":      edit(func(e []entry) []entry { return append(e, regular(exportBlobs+hexOf(digestOf(nil)), nil)) }),
		"traversal":    edit(func(e []entry) []entry { return append(e, regular("../../../../etc/evil", []byte("x"))) }),
		"blob climbing to a right name": edit(func(e []entry) []entry {
			e[1].header.Name = "blobs/../../x/" + e[1].header.Name[len(exportBlobs):]
			return e
		}),
		"link": edit(func(e []entry) []entry {
			e[1] = entry{tar.Header{Typeflag: tar.TypeSymlink, Name: e[1].header.Name, Linkname: "/etc/passwd"}, nil}
			return e
		}),
		"manifest not first": edit(func(e []entry) []entry { return append(e[1:], e[0]) }),
		"manifest with another ID": edit(func(e []entry) []entry {
			e[0].data = append(e[0].data, '\n')
			return e
		}),
		"manifest that climbs": edit(func(e []entry) []entry {
			e[0].data = bytes.Replace(e[0].data, []byte(`"cni/bridge"`), []byte(`"../bridge"`), 1)
			return e
		}),
		"manifest that says something else": edit(func(e []entry) []entry {
			e[0].data = bytes.Replace(e[0].data, []byte(hexOf(b.Manifest.Binaries[0].Digest)), []byte(hexOf(digestOf(nil))), 1)
			return e
		}),
	} {
		t.Run(name, func(t *testing.T) {
			to := newLibrary(t)
			_, err := to.Import(context.Background(), bytes.NewReader(tampered()), "")
			wantKind(t, err, fail.Invalid)
			for _, dir := range []string{to.manifestDir(), to.blobDir(), to.tmpDir()} {
				if left := names(t, dir); len(left) > 0 {
					t.Errorf("left in %s: %v", dir, left)
				}
			}
		})
	}
}

// TestImportRefusesALargeManifest: the file can't determine how much memory an import uses. The content need not be as long as its header says.
func TestImportRefusesALargeManifest(t *testing.T) {
	for _, c := range []struct {
		size int64
		want string
	}{
		{maxManifest + 1, "import bundle: manifest.json: has 8388609 bytes, and no bundle's has more than 8388608"},
		{1 << 60, "import bundle: manifest.json: has 1152921504606846976 bytes, and no bundle's has more than 8388608"},
		{maxManifest, "unexpected EOF"}, // read, and found to be truncated
	} {
		var file bytes.Buffer
		z := testkit.Value(zstd.NewWriter(&file))(t)
		testkit.Must(t, tar.NewWriter(z).WriteHeader(exportHeader(exportManifest, c.size)))
		testkit.Must(t, z.Close())
		to := newLibrary(t)
		_, err := to.Import(t.Context(), &file, "")
		wantKind(t, err, fail.Invalid, c.want, "nothing was imported")
		for _, dir := range []string{to.manifestDir(), to.blobDir(), to.tmpDir()} {
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left in %s: %v", dir, left)
			}
		}
	}
}

func TestImportStopsWhenAsked(t *testing.T) {
	l := newLibrary(t)
	file := export(t, l, addBundle(t, l, "v1.36.3", "").ID)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := newLibrary(t).Import(ctx, bytes.NewReader(file), "")
	wantKind(t, err, fail.Interrupted)
}

// TestImportIsBounded: a manifest with too many bytes is refused before any blob is written. The bound is larger for an import with an ID.
func TestImportIsBounded(t *testing.T) {
	from := newLibrary(t)
	b := addBundle(t, from, "v1.36.3", "")
	for _, c := range []struct {
		size  int64
		named bool
		words []string
	}{
		{4<<30 + 1, false, []string{"at most 4294967296", "--id"}},
		{4<<30 + 1, true, []string{"missing"}},
		{maxBundle + 1, false, []string{"larger than 16 GiB"}},
		{maxBundle + 1, true, []string{"larger than 16 GiB"}},
	} {
		m := b.Manifest
		m.Binaries = append([]Artifact{}, m.Binaries...)
		m.Binaries[0].Size, m.Binaries[0].Digest = c.size, "sha256:"+strings.Repeat("0f", 32)
		data := testkit.Value(m.encode())(t)
		var file bytes.Buffer
		z := testkit.Value(zstd.NewWriter(&file))(t)
		w := tar.NewWriter(z)
		testkit.Must(t, w.WriteHeader(exportHeader(exportManifest, int64(len(data)))))
		testkit.Value(w.Write(data))(t)
		testkit.Must(t, errors.Join(w.Close(), z.Close()))
		id := ""
		if c.named {
			id = idOf(data)
		}
		_, err := newLibrary(t).Import(t.Context(), &file, id)
		if err == nil {
			t.Fatalf("%d bytes are imported", c.size)
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%d bytes, named: %v: %v", c.size, c.named, err)
			}
		}
	}
}
