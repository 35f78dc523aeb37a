package openstack

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUnknownAuthority: an unknown authority of a cloud's certificate is reported at once, with a remedy; with the authority, requests succeed.
func TestUnknownAuthority(t *testing.T) {
	var tried, asked atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		refuse(w, http.StatusUnauthorized, "who are you?")
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			tried.Add(1)
		}
	}
	srv.StartTLS()
	defer srv.Close()
	useFake(t)
	t.Setenv("OS_AUTH_URL", srv.URL+"/v3")
	p, _ := testProvider(t, fakeDocument(t), "t3-tls-0badc0de", func(o *Options) { o.Calls.HTTPClient = nil })
	_, err := p.cloud(t.Context())
	testkit.Fails(t, err, fail.Refused, "log in to "+strings.TrimPrefix(srv.URL, "https://"), "unknown authority", "cacert in clouds.yaml", "$OS_CACERT")
	if tried.Load() != 1 || asked.Load() != 0 {
		t.Errorf("it was tried %d times, and %d questions were asked", tried.Load(), asked.Load())
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CACERT", file)
	_, err = p.cloud(t.Context())
	testkit.Fails(t, err, fail.Unauthorized, "who are you?")
}
