package imageserver

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// fixture is a server over two directories with files.
type fixture struct {
	*Server
	t   *testing.T
	dir string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, dir: dir}
	for _, d := range []string{"blobs", "content"} {
		testkit.Must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	f.Server = New(Options{Index: filepath.Join(dir, "images.json"), Blobs: []string{filepath.Join(dir, "blobs"), filepath.Join(dir, "content")}, Groups: []string{"system:nodes"},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	return f
}

// put stores a file and returns its digest.
func (f *fixture) put(where, content string) string {
	f.t.Helper()
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	testkit.Must(f.t, os.WriteFile(filepath.Join(f.dir, where, digest), []byte(content), 0o644))
	return "sha256:" + digest
}

func (f *fixture) serve(images ...Image) {
	f.t.Helper()
	testkit.Must(f.t, os.WriteFile(f.o.Index, testkit.Value(json.Marshal(Index{Images: images}))(f.t), 0o644))
}

// ask sends a request as a client with a group.
func (f *fixture) ask(method, path, group string, header ...string) *httptest.ResponseRecorder {
	f.t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{Organization: []string{group}}}}}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

const nodes = "system:nodes"

// TestServe: the server answers containerd's requests.
func TestServe(t *testing.T) {
	f := newFixture(t)
	layer := f.put("blobs", "a layer")
	manifest := f.put("blobs", "a manifest")
	other := f.put("blobs", "of no image")
	imported := f.put("content", `{"config":{"mediaType":"c","digest":"`+layer+`"},"layers":[]}`)
	files := map[string]string{manifest: "application/vnd.oci.image.manifest.v1+json", layer: "application/vnd.oci.image.layer.v1.tar"}
	f.serve(Image{Name: "docker.io/library/nginx", Tag: "1.29", Digest: manifest, Files: files},
		Image{Name: "127.0.0.1:5000/team/app", Digest: manifest, Files: files},
		Image{Name: "naupegos.dev/k8s/pause", Tag: "3", Digest: imported})
	for name, c := range map[string]struct {
		path   string
		status int
		body   string
	}{
		"version":          {"/v2/", 200, "{}"},
		"tag":              {"/v2/library/nginx/manifests/1.29?ns=docker.io", 200, "a manifest"},
		"digest":           {"/v2/library/nginx/manifests/" + manifest + "?ns=docker.io", 200, "a manifest"},
		"layer":            {"/v2/library/nginx/blobs/" + layer + "?ns=docker.io", 200, "a layer"},
		"registry's port":  {"/v2/team/app/manifests/" + manifest + "?ns=127.0.0.1:5000", 200, "a manifest"},
		"whole name":       {"/v2/docker.io/library/nginx/manifests/1.29", 200, "a manifest"},
		"tags":             {"/v2/library/nginx/tags/list?ns=docker.io", 200, `"1.29"`},
		"imported":         {"/v2/k8s/pause/manifests/3?ns=naupegos.dev", 200, `"config"`},
		"imported layer":   {"/v2/k8s/pause/blobs/" + layer + "?ns=naupegos.dev", 200, "a layer"},
		"another registry": {"/v2/library/nginx/manifests/1.29?ns=quay.io", 404, "NAME_UNKNOWN"},
		"another tag":      {"/v2/library/nginx/manifests/1.30?ns=docker.io", 404, "MANIFEST_UNKNOWN"},
		"another's file":   {"/v2/library/nginx/blobs/" + other + "?ns=docker.io", 404, "BLOB_UNKNOWN"},
		"a way out":        {"/v2/library/nginx/blobs/..%2f..%2fimages.json?ns=docker.io", 404, "NOT_FOUND"},
		"catalog":          {"/v2/_catalog", 404, "NOT_FOUND"},
		"root":             {"/", 404, "NOT_FOUND"},
	} {
		w := f.ask(http.MethodGet, c.path, nodes)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s: %d %s; want %d %s", name, w.Code, w.Body, c.status, c.body)
		}
	}
	head := f.ask(http.MethodHead, "/v2/library/nginx/manifests/1.29?ns=docker.io", nodes)
	if h := head.Header(); h.Get("Docker-Content-Digest") != manifest || h.Get("Content-Type") != files[manifest] || h.Get("Content-Length") != "10" || head.Body.Len() > 0 {
		t.Errorf("HEAD: %v %q", h, head.Body)
	}
	if part := f.ask(http.MethodGet, "/v2/library/nginx/blobs/"+layer+"?ns=docker.io", nodes, "Range", "bytes=2-"); part.Code != 206 || part.Body.String() != "layer" {
		t.Errorf("a range: %d %q", part.Code, part.Body)
	}
	if w := f.ask(http.MethodPost, "/v2/library/nginx/blobs/uploads/?ns=docker.io", nodes); w.Code != 405 {
		t.Errorf("a push: %d", w.Code)
	}
	for _, group := range []string{"", "system:authenticated", "developers"} {
		if w := f.ask(http.MethodGet, "/v2/library/nginx/manifests/1.29?ns=docker.io", group); w.Code != 403 {
			t.Errorf("group %q: %d", group, w.Code)
		}
	}
}

// TestIndexChanges: a new index takes effect with the next request, and a damaged one changes nothing.
func TestIndexChanges(t *testing.T) {
	f := newFixture(t)
	path := "/v2/a/manifests/1?ns=q.io"
	if w := f.ask(http.MethodGet, path, nodes); w.Code != 500 {
		t.Errorf("without an index: %d", w.Code)
	}
	f.serve()
	if w := f.ask(http.MethodGet, path, nodes); w.Code != 404 {
		t.Errorf("empty: %d", w.Code)
	}
	m := f.put("blobs", "m")
	f.serve(Image{Name: "q.io/a", Tag: "1", Digest: m, Files: map[string]string{m: "x"}})
	if w := f.ask(http.MethodGet, path, nodes); w.Code != 200 {
		t.Errorf("with the image: %d", w.Code)
	}
	testkit.Must(t, os.Remove(filepath.Join(f.dir, "blobs", strings.TrimPrefix(m, "sha256:"))))
	if w := f.ask(http.MethodGet, path, nodes); w.Code != 404 {
		t.Errorf("without the file: %d", w.Code)
	}
	testkit.Must(t, os.WriteFile(f.o.Index, []byte("{"), 0o644))
	testkit.Must(t, os.Chtimes(f.o.Index, time.Time{}, time.Now().Add(time.Minute)))
	if w := f.ask(http.MethodGet, path, nodes); w.Code != 500 {
		t.Errorf("damaged: %d", w.Code)
	}
}
