package bundle

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestProxyRefusesConnect names the proxy and the remedy, and tries once.
func TestProxyRefusesConnect(t *testing.T) {
	for status, remedy := range map[int]string{http.StatusForbidden: "NO_PROXY", http.StatusProxyAuthRequired: "HTTPS_PROXY"} {
		asked := 0
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.WriteHeader(status)
		}))
		defer proxy.Close()
		at, err := url.Parse("http://me:secret@" + strings.TrimPrefix(proxy.URL, "http://"))
		testkit.Must(t, err)
		f := newFetcher()
		f.transport.Proxy = http.ProxyURL(at)
		_, err = f.text(t.Context(), "https://download.example.org/sum")
		if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "the proxy "+at.Host+" does not connect to download.example.org:443") || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%d: %v", status, err)
		}
		if strings.Contains(err.Error(), "secret") || asked != 1 {
			t.Errorf("%d: %d requests, %v", status, asked, err)
		}
	}
}
