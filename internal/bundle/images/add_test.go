package images

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAddFromRegistry adds an index and a single image from a registry with TLS and a password, carries the set to another library, and removes it.
func TestAddFromRegistry(t *testing.T) {
	s := newServer(t, false)
	index := s.push(t, "team/app:v1", indexFor(t, "app", "linux/amd64", "linux/arm64/v8"))
	single := s.push(t, "tool:2", imageFor(t, "linux/amd64", "tool"))
	s.admit("robot")
	lib := newLibrary(t)
	o := Options{Platforms: []string{"linux/amd64"}, Access: Access{User: "robot", Password: "secret-word", CA: s.ca}}
	added := testkit.Value(Add(t.Context(), lib, parse(t, s.host+"/team/app:v1", s.host+"/tool@"+single), o))(t)
	if len(added.Images) != 2 || added.Images[0].Digest != index || added.Images[1].Digest != single || added.Images[1].Tag != "" {
		t.Fatalf("added %+v", added.Images)
	}
	if n := len(added.Images[0].Blobs); n != 4 { // index, manifest, configuration, layer
		t.Errorf("%d files, want those of one platform", n)
	}
	testkit.Must(t, lib.VerifySet(t.Context(), bundle.DefaultSet))
	before := s.requests
	again := testkit.Value(Add(t.Context(), lib, parse(t, s.host+"/team/app:v1"), o))(t)
	if again.Set.ID != added.Set.ID || s.requests-before > 6 {
		t.Errorf("the second time: %s, %d requests; want %s and no layers", again.Set.ID, s.requests-before, added.Set.ID)
	}

	var file bytes.Buffer
	testkit.Must(t, lib.Export(t.Context(), "", &file, bundle.DefaultSet))
	to := newLibrary(t)
	if _, err := to.Import(t.Context(), bytes.NewReader(file.Bytes()), strings.Repeat("0", 64)); fail.KindOf(err) != fail.Refused {
		t.Errorf("with another ID: %v", err)
	}
	got := testkit.Value(to.Import(t.Context(), bytes.NewReader(file.Bytes()), added.Set.ID))(t)
	if len(got.Sets) != 1 || got.Sets[0].ID != added.Set.ID || got.Bundle != nil {
		t.Errorf("imported %+v", got)
	}
	testkit.Must(t, to.VerifySet(t.Context(), bundle.DefaultSet))
	for n := file.Len() / 7; n < file.Len(); n += file.Len() / 7 {
		cut := newLibrary(t)
		if _, err := cut.Import(t.Context(), bytes.NewReader(file.Bytes()[:n])); err == nil {
			t.Errorf("%d of %d bytes are imported", n, file.Len())
		}
		if blobs := blobsOf(t, cut); len(blobs) > 0 {
			t.Errorf("%d of %d bytes leave %v", n, file.Len(), blobs)
		}
	}
	testkit.Must(t, lib.RemoveSet(t.Context(), bundle.DefaultSet))
	if blobs := blobsOf(t, lib); len(blobs) > 0 {
		t.Errorf("removed, and left %v", blobs)
	}
}

func blobsOf(t *testing.T, lib *bundle.Library) []string {
	t.Helper()
	var out []string
	for _, e := range testkit.Value(os.ReadDir(filepath.Join(lib.Root(), "blobs", "sha256")))(t) {
		out = append(out, e.Name())
	}
	return out
}

// TestAddRefuses: Add adds nothing, and prints no secret.
func TestAddRefuses(t *testing.T) {
	s := newServer(t, false)
	pinned := s.push(t, "app:v1", indexFor(t, "app", "linux/amd64", "linux/arm64"))
	s.push(t, "arm:v1", imageFor(t, "linux/arm64", "arm"))
	s.push(t, "chart:v1", mutate.ConfigMediaType(imageFor(t, "linux/amd64", "chart"), "application/vnd.cncf.helm.config.v1+json"))
	s.admit("robot")
	good := Access{User: "robot", Password: "secret-word", CA: s.ca}
	for name, c := range map[string]struct {
		ref    string
		access Access
		kind   fail.Kind
		says   string
	}{
		"no credentials":    {"app:v1", Access{CA: s.ca}, fail.Unauthorized, "docker login"},
		"wrong password":    {"app:v1", Access{User: "robot", Password: "wrong-word", CA: s.ca}, fail.Unauthorized, "password-file"},
		"unknown authority": {"app:v1", Access{User: "robot", Password: "secret-word"}, fail.Unreachable, "--ca"},
		"no such tag":       {"app:v9", good, fail.NotFound, "check name, tag"},
		"no such image":     {"none:v1", good, fail.NotFound, "check name, tag"},
		"no such digest":    {"app@" + sha(1), good, fail.NotFound, "check name"},
		"other platform":    {"arm:v1", good, fail.Refused, "linux/arm64"},
		"a chart":           {"chart:v1", good, fail.Invalid, "not a container image"},
		"no such platform":  {"app:v1@" + pinned, good, fail.NotFound, "linux/amd64, linux/arm64"},
	} {
		platform := "linux/amd64"
		if name == "no such platform" {
			platform = "linux/riscv64"
		}
		lib := newLibrary(t)
		_, err := Add(t.Context(), lib, parse(t, s.host+"/"+c.ref), Options{Platforms: []string{platform}, Access: c.access})
		if fail.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "-word") {
			t.Errorf("%s: %v; want %s that says %q", name, err, c.kind, c.says)
		}
		if sets := testkit.Value(lib.Sets(t.Context()))(t); len(sets) > 0 || len(blobsOf(t, lib)) > 0 {
			t.Errorf("%s: there are %v, %v", name, sets, blobsOf(t, lib))
		}
	}
	_, err := Add(t.Context(), newLibrary(t), parse(t, s.host+"/app:v1", "registry.example.org/app"), Options{Access: good})
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "one registry") {
		t.Errorf("a password for two registries: %v", err)
	}
	if _, err := Add(t.Context(), newLibrary(t), parse(t, s.host+"/app:v1"), Options{Platforms: []string{"windows/amd64"}}); fail.KindOf(err) != fail.Invalid {
		t.Errorf("windows: %v", err)
	}
}

// TestAddPlain: only a registry on this host may lack TLS.
func TestAddPlain(t *testing.T) {
	s := newServer(t, true)
	s.push(t, "app:v1", imageFor(t, "linux/amd64", "app"))
	o := Options{Platforms: []string{"linux/amd64"}}
	testkit.Value(Add(t.Context(), newLibrary(t), parse(t, s.host+"/app:v1"), o))(t)
	if _, err := (encrypted{http.DefaultTransport}).RoundTrip(testkit.Value(http.NewRequest(http.MethodGet, "http://10.0.0.1/v2/", nil))(t)); !errors.Is(err, errPlain) {
		t.Errorf("plain http to another host: %v", err)
	}
}

// TestAddDamaged: Add discards content that differs from its digest or ends early, and the next call continues.
func TestAddDamaged(t *testing.T) {
	s := newServer(t, true)
	s.push(t, "app:v1", imageFor(t, "linux/amd64", "app"))
	layer := testkit.Value(testkit.Value(imageFor(t, "linux/amd64", "app").Layers())(t)[0].Digest())(t)
	o := Options{Platforms: []string{"linux/amd64"}}
	lib := newLibrary(t)
	for name, body := range map[string]string{"other content": strings.Repeat("y", 4096+20), "short": "x"} {
		s.tampers(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, layer.String()) {
				return false
			}
			_, _ = w.Write([]byte(body))
			return true
		})
		if _, err := Add(t.Context(), lib, parse(t, s.host+"/app:v1"), o); err == nil {
			t.Errorf("%s: added", name)
		}
		if sets := testkit.Value(lib.Sets(t.Context()))(t); len(sets) > 0 {
			t.Errorf("%s: %v", name, sets)
		}
	}
	kept := len(blobsOf(t, lib))
	if kept == 0 || kept > 2 {
		t.Errorf("%d files are kept, want the complete ones", kept)
	}
	s.tampers(nil)
	testkit.Value(Add(t.Context(), lib, parse(t, s.host+"/app:v1"), o))(t)
	testkit.Must(t, lib.VerifySet(t.Context(), bundle.DefaultSet))
}

// TestAddTwoAtOnce: two concurrent calls add both images to the set.
func TestAddTwoAtOnce(t *testing.T) {
	s := newServer(t, true)
	lib := newLibrary(t)
	names := []string{"a:1", "b:1", "c:1", "d:1"}
	for _, n := range names {
		s.push(t, n, imageFor(t, "linux/amd64", n))
	}
	var all sync.WaitGroup
	for _, n := range names {
		all.Go(func() {
			if _, err := Add(context.Background(), lib, parse(t, s.host+"/"+n), Options{Platforms: []string{"linux/amd64"}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if set := testkit.Value(lib.Set(bundle.DefaultSet))(t); len(set.Images) != len(names) {
		t.Errorf("%d images, want %d", len(set.Images), len(names))
	}
}

// TestAddFromFiles adds images from an OCI layout and from archives.
func TestAddFromFiles(t *testing.T) {
	dir := t.TempDir()
	img := imageFor(t, "linux/amd64", "file")
	digest := testkit.Value(img.Digest())(t).String()
	oci := filepath.Join(dir, "oci")
	to := testkit.Value(layout.Write(oci, empty.Index))(t)
	testkit.Must(t, to.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "q.io/team/app:v1"})))
	testkit.Must(t, to.AppendIndex(indexFor(t, "i", "linux/amd64", "linux/arm64"), layout.WithAnnotations(map[string]string{"io.containerd.image.name": "docker.io/library/many:v1"})))
	bare := filepath.Join(dir, "bare")
	testkit.Must(t, testkit.Value(layout.Write(bare, empty.Index))(t).AppendImage(img))
	saved := filepath.Join(dir, "saved.tar")
	testkit.Must(t, tarball.WriteToFile(saved, testkit.Value(name.NewTag("q.io/team/app:v1"))(t), mutate.MediaType(mutate.ConfigMediaType(img, types.DockerConfigJSON), types.DockerManifestSchema2)))
	junk := filepath.Join(dir, "junk.tar")
	testkit.Must(t, os.WriteFile(junk, []byte("this is no archive"), 0o644))
	archive := filepath.Join(dir, "oci.tar")
	pack(t, oci, archive)
	for name, c := range map[string]struct {
		from string
		refs []string
		want []string // images, or an error
	}{
		"layout, all":       {oci, nil, []string{"q.io/team/app:v1", "docker.io/library/many:v1"}},
		"layout, one":       {oci, []string{"many:v1"}, []string{"docker.io/library/many:v1"}},
		"layout, digest":    {oci, []string{"q.io/other@" + digest}, []string{"q.io/other@" + digest}},
		"layout, none":      {oci, []string{"absent:v1"}, []string{"it holds docker.io/library/many:v1, q.io/team/app:v1"}},
		"archive":           {archive, nil, []string{"q.io/team/app:v1", "docker.io/library/many:v1"}},
		"named by the call": {bare, []string{"q.io/mine:v1"}, []string{"q.io/mine:v1"}},
		"without a name":    {bare, nil, []string{"have no names"}},
		"docker save":       {saved, nil, []string{"q.io/team/app:v1"}},
		"junk":              {junk, nil, []string{"neither a tar archive"}},
		"absent":            {filepath.Join(dir, "absent"), nil, []string{"no such file"}},
		"no layout":         {dir, nil, []string{"neither an OCI layout"}},
	} {
		lib := newLibrary(t)
		added, err := Add(t.Context(), lib, parse(t, c.refs...), Options{From: c.from, Platforms: []string{"linux/amd64"}})
		if err != nil {
			if !strings.Contains(err.Error(), c.want[0]) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if len(added.Images) != len(c.want) {
			t.Errorf("%s: %d images, want %q", name, len(added.Images), c.want)
			continue
		}
		for i, want := range c.want {
			if ref := added.Images[i].Ref(); !strings.HasPrefix(ref, want) {
				t.Errorf("%s: %s, want %s", name, ref, want)
			}
		}
		testkit.Must(t, lib.VerifySet(t.Context(), bundle.DefaultSet))
	}
}
