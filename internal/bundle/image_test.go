package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naupegos/naupegos/internal/bundle/content"
)

func testSpec(t *testing.T, dir string) imageSpec {
	t.Helper()
	put(t, filepath.Join(dir, "program"), []byte("#!program"))
	return imageSpec{Name: "echo", Tag: "v1", Roles: []string{roleWorker}, Entry: []string{"/bin/echo"}, User: nobody, Ports: []string{"8080/tcp"}, Files: append([]content.File{
		{Path: "/usr/bin/echo", Source: filepath.Join(dir, "program"), Mode: 0o755},
		{Path: "/bin/echo", Link: "../usr/bin/echo"},
	}, accounts()...)}
}

func TestImageIsTheSameEverywhere(t *testing.T) {
	ctx := context.Background()
	a, err := newLibrary(t).writeImage(ctx, testSpec(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	spec := testSpec(t, t.TempDir())
	slices.Reverse(spec.Files)
	b, err := newLibrary(t).writeImage(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	if a.Archive != b.Archive || a.ID != b.ID {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestImageReadsAsDockerArchive(t *testing.T) {
	l := newLibrary(t)
	made, err := l.writeImage(context.Background(), testSpec(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(blobPath(l, made.Archive), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != nobody || config.OS != "linux" || config.Config.Entrypoint[0] != "/bin/echo" {
		t.Errorf("configuration: %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers: %v, %v", layers, err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := map[string]int64{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s: %+v", h.Name, h)
		}
		got[h.Name] = h.Mode
	}
	for name, mode := range map[string]int64{"usr/": 0o755, "usr/bin/echo": 0o755, "bin/echo": 0o777, "etc/passwd": 0o644, "tmp/": 0o1777} {
		if got[name] != mode {
			t.Errorf("%s: mode %o, want %o (%v)", name, got[name], mode, got)
		}
	}
}

// The archive is an OCI layout whose index names the manifest that Image.ID names: what containerd shows after import.
func TestImageIsAnOCILayout(t *testing.T) {
	l := newLibrary(t)
	made, err := l.writeImage(context.Background(), testSpec(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(blobPath(l, made.Archive))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string]string{}
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok && name != hexOf(digestOf(data)) {
			t.Errorf("blob %s has another digest", name)
		}
		files[h.Name] = string(data)
	}
	for _, want := range []string{made.ID, `"io.containerd.image.name":"` + made.Ref + `"`} {
		if !strings.Contains(files["index.json"], want) {
			t.Errorf("index.json lacks %s: %s", want, files["index.json"])
		}
	}
	if _, ok := files["blobs/sha256/"+hexOf(made.ID)]; !ok {
		t.Error("the manifest is missing")
	}
}

func TestImageOfMissingProgram(t *testing.T) {
	if _, err := testRecipe(t).images(programs{}, &debianParts{}); err == nil {
		t.Error("no error")
	}
	spec := testSpec(t, t.TempDir())
	spec.Files[0].Source += ".absent"
	l := newLibrary(t)
	if _, err := l.writeImage(context.Background(), spec); err == nil {
		t.Error("no error")
	}
	if left := append(names(t, l.blobDir()), names(t, l.tmpDir())...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
