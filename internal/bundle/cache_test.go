package bundle

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

func storeOne(t *testing.T, l *Library, key string) *cacheEntry {
	t.Helper()
	dir, remove, err := l.workDir("test")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	put(t, filepath.Join(dir, "program"), []byte("the program"))
	e, err := l.store(context.Background(), "thing", key, dir, []string{"program"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCacheNoticesDamage(t *testing.T) {
	ctx, l := context.Background(), newLibrary(t)
	key, err := cacheKey("a")
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(e *cacheEntry){
		"none":        func(*cacheEntry) {},
		"flipped":     func(e *cacheEntry) { flip(t, e.path("program"), 0) },
		"truncated":   func(e *cacheEntry) { _ = os.Truncate(e.path("program"), 1) },
		"gone":        func(e *cacheEntry) { _ = os.Remove(e.path("program")) },
		"entry lost":  func(e *cacheEntry) { _ = os.Remove(e.path(entryFile)) },
		"entry spoil": func(e *cacheEntry) { flip(t, e.path(entryFile), 0) },
	} {
		damage(storeOne(t, l, key))
		e, err := l.cached(ctx, "thing", key)
		if err != nil {
			t.Fatal(err)
		}
		if (e != nil) != (name == "none") {
			t.Errorf("%s: found %v", name, e)
		}
		if err := os.RemoveAll(l.entryDir("thing", key)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBlobsShareTheCachesBytes(t *testing.T) {
	ctx, l := context.Background(), newLibrary(t)
	key, _ := cacheKey("a")
	e := storeOne(t, l, key)
	a, err := e.file("program")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.addFile(ctx, a, e.path("program"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x, _ := os.Stat(e.path("program"))
	y, err := os.Stat(blobPath(l, a))
	if err != nil || !os.SameFile(x, y) {
		t.Errorf("copied: %v", err)
	}
	// A damaged blob is repaired.
	if err := os.Remove(blobPath(l, a)); err != nil {
		t.Fatal(err)
	}
	put(t, blobPath(l, a), []byte("thE program"))
	if err := l.addFile(ctx, a, e.path("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if ok, err := sameFile(ctx, blobPath(l, a), a); !ok || err != nil {
		t.Errorf("still damaged: %v", err)
	}
}

func TestKeysDependOnEverything(t *testing.T) {
	c := testRecipe(t).tools()
	files, err := c.files()
	if err != nil {
		t.Fatal(err)
	}
	g := &goTool{version: "go1"}
	base, err := c.key(g, files)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{base: "base"}
	for name, key := range map[string]func() (string, error){
		"go":      func() (string, error) { return c.key(&goTool{version: "go2"}, files) },
		"version": func() (string, error) { d := c; d.version += "-other"; return d.key(g, files) },
		"flags":   func() (string, error) { d := c; d.ldflags += " -X a.b=c"; return d.key(g, files) },
		"tags":    func() (string, error) { d := c; d.tags = "x"; return d.key(g, files) },
		"targets": func() (string, error) { d := c; d.targets = d.targets[1:]; return d.key(g, files) },
		"derive": func() (string, error) {
			d := c
			d.derive = &catalogue.Derivation{File: "main.go", Drop: []string{"x"}}
			return d.key(g, files)
		},
		"files": func() (string, error) {
			other := map[string][]byte{}
			for k, v := range files {
				other[k] = v
			}
			other["pause/main.go"] = append([]byte("// x\n"), other["pause/main.go"]...)
			return c.key(g, other)
		},
	} {
		k, err := key()
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := seen[k]; ok {
			t.Errorf("%s and %s have the same key", name, was)
		}
		seen[k] = name
	}
}

func TestFullDiskIsTheUsersToMend(t *testing.T) {
	err := ioError(fmt.Errorf("write x: %w", syscall.ENOSPC), "store kubelet", "/lib")
	wantKind(t, err, fail.Refused, "/lib", "store kubelet", "no space left", "free space", "continues where it stopped")
	wantKind(t, ioError(os.ErrPermission, "store", "/lib"), fail.Refused, "may write there")
}

func TestBlobThatDoesNotFit(t *testing.T) {
	l := newLibrary(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full on this system; the mapping of the error is tested above")
	}
	_, err = full.WriteString("x")
	wantKind(t, ioError(err, "store", l.root), fail.Refused, "no space left")
	full.Close()
}

// The bill of materials is the same for the same contents, and names the toolchain of programs and the Debian packages.
func TestBillOfMaterials(t *testing.T) {
	ctx := context.Background()
	self, err := os.Executable() // a Go program with build information
	if err != nil {
		t.Fatal(err)
	}
	progs := programs{"kubelet": {Artifact: Artifact{Name: "kubelet", Digest: digestOf(nil)}, file: self, from: "kubernetes"}}
	debs := []deb{{"nftables", "2:1.0+deb12u1", "nftables.deb", hexOf(digestOf(nil)), "debian"}}
	m := Manifest{Kubernetes: "v1.36.3", Origin: originBuilt}
	l := newLibrary(t)
	a, err := l.addSBOM(ctx, m, nil, progs, debs)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newLibrary(t).addSBOM(ctx, m, nil, progs, debs)
	if err != nil || a != b {
		t.Errorf("not the same: %v %v %v", a, b, err)
	}
	data, err := os.ReadFile(blobPath(l, a))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		BOMFormat  string
		Components []struct{ Name, Purl string }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pkg:golang/stdlib@", "pkg:deb/debian/nftables@2%3A1.0%2Bdeb12u1", `"program:kubelet"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is missing", want)
		}
	}
	if doc.BOMFormat != "CycloneDX" {
		t.Errorf("format %q", doc.BOMFormat)
	}
	progs["etcd"] = program{Artifact: Artifact{Name: "etcd"}, file: "/dev/null"}
	if _, err := l.addSBOM(ctx, m, nil, progs, nil); err == nil {
		t.Error("a built program without build information passes")
	}
	m.Origin = originPulled
	if _, err := l.addSBOM(ctx, m, nil, progs, nil); err != nil {
		t.Errorf("a pulled program without build information: %v", err)
	}
}
