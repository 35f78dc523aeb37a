package addons

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAsk: a reachable load balancer must pass requests to its backend; one that can't be reached from the only place is not tested.
func TestAsk(t *testing.T) {
	var early atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "192.0.2.7" || early.Add(1) < 2 { // it does not know its backends immediately
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("echo\n"))
	}))
	defer web.Close()
	good := place{"demo-gw-1", func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, web.Listener.Addr().String())
	}}
	cut := place{"here", func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") }}

	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if from, err := ask(patient, []place{cut, good}, 0, "192.0.2.7", "echo"); from != "demo-gw-1" || err != nil {
		t.Errorf("asked from %q: %v", from, err)
	}
	if from, err := ask(patient, []place{cut}, 0, "192.0.2.7", "echo"); from != notAsked || err != nil {
		t.Errorf("out of reach: asked from %q: %v", from, err)
	}
	for name, c := range map[string]struct {
		places []place
		answer string
		want   string
	}{
		"another program answers":       {[]place{good}, "other", `from demo-gw-1: it answers 200 OK, and not as the pod behind it`},
		"not even a gateway reaches it": {[]place{cut, cut}, "echo", "no route to host"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := ask(ctx, c.places, 0, "192.0.2.7", c.answer)
		cancel()
		testkit.Fails(t, err, fail.NotReady, "no request to 192.0.2.7 was answered", c.want)
		if err != nil && strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRequestsAreNotLedAway: a cluster's load balancer can't make this host send a request to another service, and can't read its answer.
func TestRequestsAreNotLedAway(t *testing.T) {
	var asked atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte("SECRET"))
	}))
	defer inner.Close()
	outer := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusFound))
	defer outer.Close()
	for _, at := range []*httptest.Server{outer, inner} {
		here := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "192.0.2.7:80" {
				addr = at.Listener.Addr().String()
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		if err := askOnce(t.Context(), here, "192.0.2.7", "echo"); err == nil || strings.Contains(err.Error(), "SECRET") || at == outer && asked.Load() > 0 {
			t.Errorf("%d requests came, and the error is %v", asked.Load(), err)
		}
	}
}
