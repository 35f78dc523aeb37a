package runner

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// fakeNova answers as nova-api-metadata does, for one known instance. The openstack test queries the real service.
func fakeNova(t *testing.T, known string) *metadata {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Instance-ID")
		mac := hmac.New(sha256.New, []byte("shared"))
		mac.Write([]byte(id))
		switch {
		case r.Header.Get("X-Instance-ID-Signature") != hex.EncodeToString(mac.Sum(nil)):
			http.Error(w, "Invalid proxy request signature.", http.StatusForbidden)
		case id != known || r.Header.Get("X-Tenant-ID") != "project":
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, "/openstack/latest/meta_data.json"):
			_, _ = io.WriteString(w, `{"uuid": "`+id+`", "hostname": "one.novalocal", "public_keys": {"k": "ssh-ed25519 AAAA x\n"}, "from": "`+r.Header.Get("X-Forwarded-For")+`"}`)
		case r.URL.Path == "/openstack/latest/user_data":
			_, _ = io.WriteString(w, "#cloud-config\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	m, err := newMetadata(srv.URL, "shared")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestInstance(t *testing.T) {
	m := fakeNova(t, "s1")
	in, err := m.instance(t.Context(), server{ID: "s1", Project: "project"}, "10.1.0.5")
	if err != nil || in.Hostname != "one.novalocal" || string(in.UserData) != "#cloud-config\n" || len(in.PublicKeys) != 1 {
		t.Errorf("%+v %v", in, err)
	}
	if _, err := m.instance(t.Context(), server{ID: "s2", Project: "project"}, "10.1.0.6"); fail.KindOf(err) != fail.NotReady {
		t.Errorf("an instance that Nova does not know: %v", err)
	}
	m.secret = "another"
	if _, err := m.instance(t.Context(), server{ID: "s1", Project: "project"}, "10.1.0.5"); fail.KindOf(err) != fail.Unreachable || strings.Contains(err.Error(), "another") {
		t.Errorf("a wrong secret: %v", err)
	}
}

func TestMetadataProxy(t *testing.T) {
	m := fakeNova(t, "s1")
	here := netip.MustParseAddr("127.0.0.1")
	known := true
	p, err := m.startProxy(here, func(a netip.Addr) (server, bool) { return server{ID: "s1", Project: "project"}, known && a == here })
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	ask := func() (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address().String()+"/openstack/latest/meta_data.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Instance-ID", "somebody-else")
		req.Header.Set("X-Forwarded-For", "10.9.9.9")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := ask(); code != 200 || !strings.Contains(body, `"uuid": "s1"`) || !strings.Contains(body, `"from": "127.0.0.1"`) {
		t.Errorf("%d %s", code, body)
	}
	known = false
	if code, body := ask(); code != 404 {
		t.Errorf("from an address that is not a server's: %d %s", code, body)
	}
}
