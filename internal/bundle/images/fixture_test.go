package images

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	registries "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/testkit"
)

// server is a registry for a test.
type server struct {
	*httptest.Server
	host     string
	ca       []byte
	mu       sync.Mutex                                        // guards the fields below
	user     string                                            // empty: no authentication
	tamper   func(w http.ResponseWriter, r *http.Request) bool // returns true if it has answered
	requests int
}

// newServer starts a registry, with TLS unless plain.
func newServer(t *testing.T, plain bool) *server {
	t.Helper()
	s := &server{}
	inner := registries.New(registries.Logger(log.New(io.Discard, "", 0)))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests++
		wanted, tamper := s.user, s.tamper
		s.mu.Unlock()
		if user, password, _ := r.BasicAuth(); wanted != "" && (user != wanted || password != "secret-word") {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if tamper != nil && tamper(w, r) {
			return
		}
		inner.ServeHTTP(w, r)
	})
	if plain {
		s.Server = httptest.NewServer(h)
	} else {
		s.Server = httptest.NewTLSServer(h)
		s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	t.Cleanup(s.Close)
	_, s.host, _ = strings.Cut(s.URL, "://")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	return s
}

// admit makes the registry require a user, and returns the former one.
func (s *server) admit(user string) (former string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former, s.user = s.user, user
	return former
}

// tampers sets a handler in place of the registry's.
func (s *server) tampers(with func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tamper = with
}

// imageFor makes an image of one layer.
func imageFor(t *testing.T, platform, salt string) v1.Image {
	t.Helper()
	p := testkit.Value(v1.ParsePlatform(platform))(t)
	layer := static.NewLayer([]byte("layer "+salt+platform+strings.Repeat("x", 4096)), types.OCILayer)
	img := testkit.Value(mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layer))(t)
	config := testkit.Value(img.ConfigFile())(t).DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	return testkit.Value(mutate.ConfigFile(img, config))(t)
}

// indexFor makes an index with an image for each platform, and an attestation like docker buildx's.
func indexFor(t *testing.T, salt string, platforms ...string) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range append(platforms, "unknown/unknown") {
		p := testkit.Value(v1.ParsePlatform(text))(t)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: imageFor(t, text, salt), Descriptor: v1.Descriptor{Platform: p}})
	}
	return index
}

// push puts an image or an index into the registry, and returns its digest.
func (s *server) push(t *testing.T, ref string, what remote.Taggable) string {
	t.Helper()
	options := []remote.Option{remote.WithTransport(s.Client().Transport)}
	tag := testkit.Value(name.ParseReference(s.host+"/"+ref, name.WeakValidation))(t)
	user := s.admit("")
	defer s.admit(user)
	switch x := what.(type) {
	case v1.ImageIndex:
		testkit.Must(t, remote.WriteIndex(tag, x, options...))
		return testkit.Value(x.Digest())(t).String()
	case v1.Image:
		testkit.Must(t, remote.Write(tag, x, options...))
		return testkit.Value(x.Digest())(t).String()
	}
	t.Fatal("neither image nor index")
	return ""
}

func newLibrary(t *testing.T) *bundle.Library {
	t.Helper()
	return testkit.Value(bundle.OpenLibrary(filepath.Join(t.TempDir(), "library")))(t)
}

func parse(t *testing.T, texts ...string) []Reference {
	t.Helper()
	var out []Reference
	for _, text := range texts {
		out = append(out, testkit.Value(ParseReference(text))(t))
	}
	return out
}

func scan(t *testing.T, text string) Scanned {
	t.Helper()
	var s Scanned
	testkit.Must(t, s.Scan("file.yaml", bytes.NewBufferString(text)))
	return s
}

func sha(n int) string { return "sha256:" + strings.Repeat(fmt.Sprint(n%10), 64) }

// pack writes a directory as a tar archive.
func pack(t *testing.T, dir, file string) {
	t.Helper()
	out := testkit.Value(os.Create(file))(t)
	w := tar.NewWriter(out)
	testkit.Must(t, w.AddFS(os.DirFS(dir)))
	testkit.Must(t, w.Close())
	testkit.Must(t, out.Close())
}
