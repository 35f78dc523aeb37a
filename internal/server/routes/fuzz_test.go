package routes_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/routes"
	"github.com/naupegos/naupegos/internal/testkit"
)

// FuzzRequests: anybody on the provisioning network may send anything to the open routes. Each request gets an answer that is not an internal error,
// with JSON if the header says so.
func FuzzRequests(f *testing.F) {
	s := newSite(f, registry.Options{})
	client := &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var open []string
	for _, m := range routes.Mounts(routes.Options{}) {
		if m.On == server.Boot {
			open = append(open, m.Pattern)
		}
	}
	if len(open) < 8 {
		f.Fatalf("open are only %v", open)
	}
	const selector = "uuid=" + uuid1 + "&mac=52-54-00-e8-32-51&os=installed"
	for i := range open {
		for _, body := range []string{"", legacy(1, "boot-1"), `{"client_params":{"id":"` + uuid1 + `","group":"demo"}}`, `{"uuid":"` + uuid1 + `","digest":"x"}`, "[", "\xff"} {
			f.Add(uint8(i), selector, "success", body)
		}
		f.Add(uint8(i), "../..", "", "null")
		f.Add(uint8(i), "uuid=\x00&mac=", "fail", "0")
	}
	f.Fuzz(func(t *testing.T, which uint8, selector, result, body string) {
		pattern := open[int(which)%len(open)]
		method, path, _ := strings.Cut(strings.NewReplacer("{selector}", url.PathEscape(selector), "{result}", url.PathEscape(result)).Replace(pattern), " ")
		req, err := http.NewRequestWithContext(t.Context(), method, s.http+path, strings.NewReader(body))
		if err != nil {
			t.Skip(err)
		}
		req.Header.Set("fleet-lock-protocol", "true")
		res := testkit.Value(client.Do(req))(t)
		defer res.Body.Close()
		said := testkit.Value(io.ReadAll(res.Body))(t)
		if res.StatusCode >= http.StatusInternalServerError {
			t.Fatalf("%s %q with %q: %d %s", pattern, path, body, res.StatusCode, said)
		}
		if strings.Contains(res.Header.Get("Content-Type"), "json") && !json.Valid(said) {
			t.Fatalf("%s %q with %q: %d, and this is no JSON: %q", pattern, path, body, res.StatusCode, said)
		}
	})
}
