package bundle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/release"
)

// newLibrary returns an empty library for one test.
func newLibrary(t *testing.T) *Library {
	t.Helper()
	l, err := OpenLibrary(filepath.Join(t.TempDir(), "library"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testRecipe is the recipe of the release that tests run with.
func testRecipe(t *testing.T) recipe {
	t.Helper()
	r, err := findRecipe(release.Default)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// addBundle registers a small bundle: two binaries, an image and a bill of materials. The kubelet is the same for every salt.
func addBundle(t *testing.T, l *Library, version, salt string) *Bundle {
	t.Helper()
	ctx := context.Background()
	m := Manifest{Schema: 1, Kubernetes: version, Platform: hostPlatform(), Origin: originBuilt, Repository: Repository,
		Components: []Component{{"kubernetes", version, "module k8s.io/kubernetes@" + version}}}
	put := func(name, content string, mode os.FileMode) Artifact {
		a, err := l.addBlob(ctx, name, bytes.NewBufferString(content), mode)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	m.Binaries = []Artifact{put("kubelet", "the kubelet", 0o755), put("cni/bridge", "bridge "+version+salt, 0o755)}
	m.Files = []Artifact{put(SBOMName, "sbom "+version+salt, 0o644)}
	m.Images = []Image{{Name: "pause", Ref: Repository + "/pause:1", ID: digestOf([]byte("pause" + salt)), Archive: put("image/pause", "archive "+version+salt, 0o644), Roles: []string{roleWorker}}}
	b, err := l.register(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// blobPath returns the file of a blob.
func blobPath(l *Library, a Artifact) string { return filepath.Join(l.blobDir(), hexOf(a.Digest)) }

// names lists the entries of a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

func filler(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d of something long\n", i)
	}
	return b.Bytes()[:n]
}
