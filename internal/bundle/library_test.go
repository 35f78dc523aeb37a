package bundle

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

func wantKind(t *testing.T, err error, kind fail.Kind, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", kind)
	}
	if got := fail.KindOf(err); got != kind {
		t.Errorf("error is %s, want %s: %v", got, kind, err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error does not say %q: %v", s, err)
		}
	}
}

func TestCanonicalIDIsStable(t *testing.T) {
	m := Manifest{Schema: 1, Kubernetes: "v1.36.3", Platform: "linux/amd64", Origin: "built", Repository: Repository,
		Components: []Component{{"b", "v1", "x"}, {"a", "v2", "y"}}}
	m.sort()
	data, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"schema":1,"kubernetes":"v1.36.3","platform":"linux/amd64","origin":"built","repository":"naupegos.dev/k8s","components":[{"name":"a","version":"v2","source":"y"},{"name":"b","version":"v1","source":"x"}],"binaries":null,"images":null,"files":null}` + "\n"
	if string(data) != want {
		t.Errorf("canonical form changed, and with it every bundle's ID:\n%s", data)
	}
}

func TestManifestRefusesWhatIsDangerous(t *testing.T) {
	digest := digestOf(nil)
	for name, m := range map[string]Manifest{
		"unknown schema": {Schema: 2, Kubernetes: "v1.36.3"},
		"version":        {Schema: 1, Kubernetes: "latest"},
		"digest":         {Schema: 1, Kubernetes: "v1.36.3", Binaries: []Artifact{{Name: "a", Digest: "sha256:../../etc/passwd"}}},
		"short digest":   {Schema: 1, Kubernetes: "v1.36.3", Binaries: []Artifact{{Name: "a", Digest: "sha256:00"}}},
		"absolute name":  {Schema: 1, Kubernetes: "v1.36.3", Binaries: []Artifact{{Name: "/a", Digest: digest}}},
		"climbing name":  {Schema: 1, Kubernetes: "v1.36.3", Files: []Artifact{{Name: "../a", Digest: digest}}},
		"twice":          {Schema: 1, Kubernetes: "v1.36.3", Binaries: []Artifact{{Name: "a", Digest: digest}, {Name: "a", Digest: digest}}},
		"size":           {Schema: 1, Kubernetes: "v1.36.3", Images: []Image{{Name: "a", Archive: Artifact{Name: "a", Digest: digest, Size: -1}}}},
		"endless":        {Schema: 1, Kubernetes: "v1.36.3", Binaries: []Artifact{{Name: "a", Digest: digest, Size: math.MaxInt64}, {Name: "b", Digest: digest, Size: math.MaxInt64}}},
		"large in sum":   {Schema: 1, Kubernetes: "v1.36.3", Binaries: []Artifact{{Name: "a", Digest: digest, Size: 9 << 30}, {Name: "b", Digest: digest, Size: 9 << 30}}},
	} {
		data, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseManifest(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := parseManifest([]byte(`{"schema":1,"kubernetes":"v1.36.3","surprise":1}`)); err == nil {
		t.Error("unknown field accepted")
	}
}

func TestFindTakesTheNewest(t *testing.T) {
	ctx, l := context.Background(), newLibrary(t)
	_, err := l.Find(ctx, "v1.36.3")
	wantKind(t, err, fail.NotFound, "bundle build --kubernetes v1.36.3, or use bundle pull, bundle import")

	first := addBundle(t, l, "v1.36.3", "first")
	second := addBundle(t, l, "v1.36.3", "second")
	other := addBundle(t, l, "v1.35.4", "")
	age(t, l, first, time.Hour)
	age(t, l, other, -time.Hour)
	if b, err := l.Find(ctx, "v1.36.3"); err != nil || b.ID != second.ID {
		t.Errorf("found %+v, %v, want the second", b, err)
	}
	// After it is remade, the first bundle is the newest.
	addBundle(t, l, "v1.36.3", "first")
	age(t, l, second, time.Minute)
	if b, err := l.Find(ctx, "v1.36.3"); err != nil || b.ID != first.ID {
		t.Errorf("found %+v, %v, want the first again", b, err)
	}
	all, err := l.List(ctx)
	if err != nil || len(all) != 3 || all[2].ID != other.ID {
		t.Errorf("list: %v, %v", all, err)
	}
	if b, err := l.Get(ctx, first.ID[:12]); err != nil || b.ID != first.ID {
		t.Errorf("by prefix: %v, %v", b, err)
	}
	_, err = l.Get(ctx, "../../x")
	wantKind(t, err, fail.Invalid)
	_, err = l.Get(ctx, strings.Repeat("0", 64))
	wantKind(t, err, fail.NotFound)
}

func age(t *testing.T, l *Library, b *Bundle, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(l.manifestPath(b.ID), at, at); err != nil {
		t.Fatal(err)
	}
}

func TestBundleKnowsItsParts(t *testing.T) {
	l := newLibrary(t)
	b := addBundle(t, l, "v1.36.3", "")
	a, err := b.Binary("kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(b.Path(a.Digest)); err != nil || string(data) != "the kubelet" {
		t.Errorf("kubelet: %q, %v", data, err)
	}
	if info, err := os.Stat(b.Path(a.Digest)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("kubelet's mode: %v, %v", info.Mode(), err)
	}
	if len(b.Images(roleWorker)) != 1 || len(b.Images(roleControlPlane)) != 0 || len(b.Images("")) != 1 {
		t.Errorf("images by role: %v", b.Manifest.Images)
	}
	_, err = b.Binary("nothing")
	wantKind(t, err, fail.NotFound, "nothing")
	_, err = b.Image("nothing")
	wantKind(t, err, fail.NotFound, "nothing")
}

func TestRemoveSweepsOnlyWhatIsUnused(t *testing.T) {
	ctx, l := context.Background(), newLibrary(t)
	a, b := addBundle(t, l, "v1.36.3", "a"), addBundle(t, l, "v1.36.3", "b")
	put(t, filepath.Join(l.cacheDir(), "old-1", entryFile), []byte(`{"key":"1","files":[]}`))
	if err := l.Remove(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	if err := l.Verify(ctx, b.ID); err != nil {
		t.Errorf("the other bundle suffered: %v", err)
	}
	if left := names(t, l.blobDir()); len(left) != len(b.Manifest.artifacts()) {
		t.Errorf("%d blobs left, want %d", len(left), len(b.Manifest.artifacts()))
	}
	if left := names(t, l.cacheDir()); len(left) != 0 {
		t.Errorf("cache left: %v", left)
	}
	wantKind(t, l.Remove(ctx, a.ID), fail.NotFound)
	// A bundle with a damaged manifest must be removable.
	if err := os.WriteFile(l.manifestPath(b.ID), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	if left := names(t, l.blobDir()); len(left) != 0 {
		t.Errorf("blobs left: %v", left)
	}
}

func TestVerifyNamesEveryProblem(t *testing.T) {
	ctx, l := context.Background(), newLibrary(t)
	b := addBundle(t, l, "v1.36.3", "")
	if err := l.Verify(ctx, b.ID); err != nil {
		t.Fatalf("a whole bundle: %v", err)
	}
	flip(t, blobPath(l, b.Manifest.Binaries[0]), 3)
	wantKind(t, l.Verify(ctx, b.ID), fail.Invalid, b.Manifest.Binaries[0].Name, "1 of 4", "content has digest")

	if err := os.Truncate(blobPath(l, b.Manifest.Images[0].Archive), 2); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(blobPath(l, b.Manifest.Files[0])); err != nil {
		t.Fatal(err)
	}
	wantKind(t, l.Verify(ctx, b.ID), fail.Invalid, "3 of 4", "image/pause: has 2 bytes", SBOMName+": missing", "bundle remove "+b.ID[:12])

	flip(t, l.manifestPath(b.ID), 40)
	wantKind(t, l.Verify(ctx, b.ID), fail.Invalid)
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLockExcludes(t *testing.T) {
	l := newLibrary(t)
	unlock, err := l.lock(context.Background(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.lock(context.Background(), 10*time.Millisecond)
	wantKind(t, err, fail.Conflict, "another process")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.lock(ctx, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	said := ""
	_, _, err = l.assemble(ctx, recipe{}, originBuilt, func(e Event) {
		said += e.Note
		cancel()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(said, "waiting until another naupegos has written") {
		t.Errorf("a waiting process prints %q, and ends with %v", said, err)
	}
	unlock()
	unlock, err = l.lock(context.Background(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
