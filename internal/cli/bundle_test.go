package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

// bundleFixture writes a library with one small bundle and returns its directory and the bundle's ID.
func bundleFixture(t *testing.T) (root, id string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "library")
	id, err := bundletest.WriteSmall(root, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	return root, id
}

// runBundle runs a verb on bundles.
func runBundle(t *testing.T, root string, in []byte, args ...string) (string, error) {
	t.Helper()
	var out, progress bytes.Buffer
	c := New(&App{In: bytes.NewReader(in), Out: &out, Err: &progress, StateDir: t.TempDir()})
	c.SetArgs(append(args, "--library", root))
	err := c.ExecuteContext(context.Background())
	return out.String(), err
}

func TestBundleVerbs(t *testing.T) {
	root, id := bundleFixture(t)
	file := filepath.Join(t.TempDir(), "bundle.tar.zst")
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"bundle", "list"}, []string{"KUBERNETES", id[:12], release.Default, "built"}},
		{[]string{"bundle", "list", "-o", "json"}, []string{`"id": "` + id + `"`, `"kubernetes": "` + release.Default + `"`}},
		{[]string{"bundle", "list", "-o", "yaml"}, []string{"- added:", "id: " + id, "schemaVersion: 1"}},
		{[]string{"bundle", "inspect", id[:8]}, []string{id, "module k8s.io/kubernetes@" + release.Default, "kubelet", "naupegos.dev/k8s/pause:1", "worker"}},
		{[]string{"bundle", "inspect", id[:8], "--sbom"}, []string{"CycloneDX"}},
		{[]string{"bundle", "verify", id[:8]}, []string{"is whole"}},
		{[]string{"bundle", "export", id, file}, nil},
	} {
		out, err := runBundle(t, root, nil, c.args...)
		if err != nil {
			t.Fatalf("%v: %v", c.args, err)
		}
		for _, s := range c.says {
			if !strings.Contains(out, s) {
				t.Errorf("%v does not say %q:\n%s", c.args, s, out)
			}
		}
	}
	other := filepath.Join(t.TempDir(), "other")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{file, "-"} {
		if out, err := runBundle(t, other, data, "bundle", "import", from); err != nil || !strings.Contains(out, id[:12]) {
			t.Errorf("import %s: %q, %v", from, out, err)
		}
	}
	if _, err := runBundle(t, other, nil, "bundle", "import", file, "--id", strings.Repeat("0", 64)); fail.KindOf(err) != fail.Refused {
		t.Errorf("import of another bundle: %v", err)
	}
	if out, err := runBundle(t, other, nil, "bundle", "import", file, "--id", id); err != nil || !strings.Contains(out, id[:12]) {
		t.Errorf("import by ID: %q, %v", out, err)
	}
	piped, err := runBundle(t, other, nil, "bundle", "export", id, "-")
	if err != nil || piped != string(data) {
		t.Errorf("export to standard output: %d bytes, want %d (%v)", len(piped), len(data), err)
	}
	if out, err := runBundle(t, other, nil, "bundle", "remove", id[:10]); err != nil || !strings.Contains(out, "removed") {
		t.Errorf("remove: %q, %v", out, err)
	}
	if out, err := runBundle(t, other, nil, "bundle", "list"); err != nil || !strings.Contains(out, "No bundles") {
		t.Errorf("list of nothing: %q, %v", out, err)
	}
	if out, err := runBundle(t, other, nil, "bundle", "list", "-o", "json"); err != nil || !strings.Contains(out, `"items": []`) {
		t.Errorf("list of nothing as JSON: %q, %v", out, err)
	}
}

func TestBundleVerbsFail(t *testing.T) {
	root, id := bundleFixture(t)
	target := filepath.Join(t.TempDir(), "out")
	blobs, err := filepath.Glob(root + "/blobs/sha256/*")
	if err != nil || len(blobs) != 4 {
		t.Fatalf("%v, %v", blobs, err)
	}
	for _, b := range blobs {
		if err := os.WriteFile(b, []byte("xxxxxxx"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		kind fail.Kind
	}{
		{[]string{"bundle", "verify", id}, fail.Invalid},
		{[]string{"bundle", "verify", "v9.9.9"}, fail.NotFound},
		{[]string{"bundle", "inspect", "nonsense"}, fail.NotFound}, // no set
		{[]string{"bundle", "inspect", "1.37.2"}, fail.Invalid},
		{[]string{"bundle", "export", id, target}, fail.Invalid},
		{[]string{"bundle", "import", filepath.Join(root, "absent")}, fail.Invalid},
		{[]string{"bundle", "import", os.DevNull, "--id", id[:12]}, fail.Invalid},
		{[]string{"bundle", "build", "--kubernetes", "v1.2.3"}, fail.Invalid},
		{[]string{"bundle", "pull", "--kubernetes", "v1.2.3"}, fail.Invalid},
		{[]string{"bundle", "build", "--go", "/nonexistent"}, fail.Refused},
	} {
		if _, err := runBundle(t, root, nil, c.args...); fail.KindOf(err) != c.kind {
			t.Errorf("%v: %v (%s), want %s", c.args, err, fail.KindOf(err), c.kind)
		}
	}
	if left, _ := filepath.Glob(filepath.Dir(target) + "/*"); len(left) > 0 {
		t.Errorf("a failed export left %v", left)
	}
	if left, _ := filepath.Glob(filepath.Dir(target) + "/.out*"); len(left) > 0 {
		t.Errorf("a failed export left %v", left)
	}
	if _, err := runBundle(t, root, nil, "bundle", "verify", "v9.9.9"); strings.Contains(err.Error(), "bundle build") || !strings.Contains(err.Error(), release.Default) {
		t.Errorf("the hint of a release without a recipe: %v", err)
	}
}
