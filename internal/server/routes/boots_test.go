package routes_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/routes"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestBoots(t *testing.T) {
	s := newSite(t, registry.Options{})
	s.enrol(testkit.Value(facts.NewKey())(t)) // machine 3
	if status, body := s.ask(&http.Client{}, server.Anybody, "POST", "/discovery", legacy(2, "boot-1")); status != 200 {
		t.Fatal(body)
	}
	b := routes.NewBoots(s.registry, slog.New(slog.DiscardHandler))
	h := b.Watch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("os") != "installed" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, r.URL.RawQuery)
	}))
	go func() { testkit.Must(t, b.Run(t.Context())) }()
	for _, query := range []string{"", "mac=52-54-00-00-00-99", "mac=52-54-00-e8-32-53", "uuid=b7f5f93a-b029-475f-b3a4-479ba198cb82&mac=52-54-00-e8-32-52"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/ipxe?"+query, nil))
	}
	state := func(mac string) string { return testkit.Value(s.registry.Machine(t.Context(), mac))(t).State }
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("the boot is noted", func() bool { return state("52:54:00:e8:32:52") == "booting" }))
	if got := state("52:54:00:e8:32:53"); got != "discovered" {
		t.Errorf("a client without its key changes a machine to %s", got)
	}
	ignition := routes.IgnitionOf(h)
	if got, err := ignition(t.Context(), "os=installed&x=y"); err != nil || string(got) != "os=installed&x=y" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := ignition(t.Context(), "x=y")
	testkit.Fails(t, err, fail.NotFound)
}
