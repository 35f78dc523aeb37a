package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/authority"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// started runs a server with parts on loopback, and returns a client that believes its authority, and the addresses.
func started(t *testing.T, c Config) (*http.Client, Addresses, func() error) {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	ca := testkit.Value(authority.Open(t.Context(), st.ServerSecrets(), "server"))(t)
	c.Log = slog.New(slog.DiscardHandler)
	c.Serving = testkit.Value(ca.Serve(nil, c.Log))(t)
	c.ListenHTTP, c.ListenHTTPS = "127.0.0.1:0", "127.0.0.1:0"
	s := testkit.Value(Listen(t.Context(), c))(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	end := func() error { stop(); err := <-done; done <- err; return err }
	t.Cleanup(func() { _ = end(); testkit.Must(t, st.Close()) })
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}, s.Addresses(), end
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res := testkit.Value(c.Get(url))(t)
	defer res.Body.Close()
	return res, string(testkit.Value(io.ReadAll(res.Body))(t))
}

// TestListeners: both listeners serve mounts of Boot, only HTTPS serves mounts of API; the answers have security headers, and errors are problems.
func TestListeners(t *testing.T) {
	say := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	c, at, _ := started(t, Config{Parts: []Part{{Name: "test", Mounts: []Mount{
		{Pattern: "GET /boot.ipxe", Handler: say("#!ipxe"), On: Boot, Scope: Public()},
		{Pattern: "GET /secret", Handler: say("secret"), Scope: Public()},
		{Pattern: "GET /panic", On: Boot, Scope: Public(), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("on purpose") })},
		{Pattern: "GET /guarded", Handler: say("never"), Need: Read, Scope: Everything()},
	}}}})
	for url, want := range map[string]struct {
		status int
		body   string
	}{
		"http://" + at.HTTP + "/boot.ipxe": {200, "#!ipxe"}, "https://" + at.HTTPS + "/boot.ipxe": {200, "#!ipxe"},
		"http://" + at.HTTP + "/secret": {404, problemKind("not found")}, "https://" + at.HTTPS + "/secret": {200, "secret"},
		"http://" + at.HTTP + "/panic": {500, "its log has details"}, "https://" + at.HTTPS + "/guarded": {401, problemKind("unauthorized")},
	} {
		res, body := get(t, c, url)
		if res.StatusCode != want.status || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %s", url, res.StatusCode, body)
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", url, res.Header)
		}
	}
	res := testkit.Value(c.Post("http://"+at.HTTP+"/boot.ipxe", "", nil))(t)
	defer res.Body.Close()
	if res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" || res.Header.Get("Content-Type") != problem.ContentType {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

func problemKind(kind string) string { return fmt.Sprintf(`"kind":%q`, kind) }

func TestHealth(t *testing.T) {
	var broken atomic.Bool
	well := true
	c, at, _ := started(t, Config{
		Ping: func(context.Context) error {
			if broken.Load() {
				return errors.New("gone")
			}
			return nil
		},
		Parts: []Part{{Name: "matchbox", Health: func(context.Context) map[string]bool { return map[string]bool{"/boot.ipxe": well} }}},
	})
	check := func(status int, want string) {
		t.Helper()
		res, body := get(t, c, "http://"+at.HTTP+"/healthz")
		if res.StatusCode != status || strings.TrimSpace(body) != want || !json.Valid([]byte(body)) {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}
	check(200, `{"db":true,"global":true,"matchbox":{"/boot.ipxe":true}}`)
	well = false
	check(503, `{"db":true,"global":false,"matchbox":{"/boot.ipxe":false}}`)
	well = true
	broken.Store(true)
	testkit.Until(t, time.Minute, 50*time.Millisecond, func() error {
		if res, body := get(t, c, "http://"+at.HTTP+"/healthz"); res.StatusCode != 503 || strings.TrimSpace(body) != `{"db":false,"global":false,"matchbox":{"/boot.ipxe":true}}` {
			return fmt.Errorf("%d %s", res.StatusCode, body)
		}
		return nil
	})
}

// TestManyAskForHealth: many clients cost one question to the store, and clients that leave neither end it nor write to the log.
func TestManyAskForHealth(t *testing.T) {
	var log bytes.Buffer
	asked := 0
	s := &Server{c: Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Ping: func(ctx context.Context) error { asked++; return ctx.Err() }}}
	for range 1000 {
		ctx, leave := context.WithCancel(t.Context())
		leave()
		w := httptest.NewRecorder()
		s.health(w, httptest.NewRequestWithContext(ctx, "GET", "/healthz", nil))
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if asked > 100 || log.Len() > 0 { // one in each second
		t.Errorf("the store was asked %d times, and the log is %q", asked, log.String())
	}
}

// TestBodyIsBounded: a body above the mount's MaxBody gets status 413.
func TestBodyIsBounded(t *testing.T) {
	c, at, _ := started(t, Config{Parts: []Part{{Name: "test", Mounts: []Mount{{Pattern: "POST /discovery", On: Boot, Scope: Public(), MaxBody: 8,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				problem.Write(w, err)
			}
		})}}}}})
	for body, want := range map[string]int{"12345678": 200, "123456789": 413} {
		res := testkit.Value(c.Post("http://"+at.HTTP+"/discovery", "", strings.NewReader(body)))(t)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d bytes: %d", len(body), res.StatusCode)
		}
	}
}

// TestStopDrains: after a stop, a running request still gets its answer, and the Run of a part ends.
func TestStopDrains(t *testing.T) {
	inside, ended := make(chan struct{}), make(chan struct{})
	release := make(chan struct{})
	c, at, stop := started(t, Config{Parts: []Part{{Name: "test",
		Run: func(ctx context.Context) error { <-ctx.Done(); close(release); close(ended); return nil },
		Mounts: []Mount{{Pattern: "GET /slow", On: Boot, Scope: Public(), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(inside)
			<-release
			_, _ = io.WriteString(w, "done")
		})}}}}})
	got := make(chan string, 1)
	go func() {
		res, err := c.Get("http://" + at.HTTP + "/slow")
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		got <- string(b)
	}()
	<-inside
	testkit.Must(t, stop())
	if body := <-got; body != "done" {
		t.Errorf("the request under way got %q", body)
	}
	<-ended
}

// TestWorkThatFailsEndsTheServer: Serve returns the error of a part's Run with its kind and the part's name.
func TestWorkThatFailsEndsTheServer(t *testing.T) {
	_, _, stop := started(t, Config{Parts: []Part{{Name: "dhcp", Run: func(context.Context) error { return fail.New(fail.Refused, "port 67 is taken") }}}})
	testkit.Fails(t, stop(), fail.Refused, "dhcp", "port 67")
}

func TestBesideHTTP(t *testing.T) {
	for in, want := range map[string]string{":8080": ":8443", "10.0.0.1:80": "10.0.0.1:8443", "[::1]:80": "[::1]:8443", "127.0.0.1:0": "127.0.0.1:0"} {
		if got := testkit.Value(BesideHTTP(in))(t); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	_, err := BesideHTTP("8080")
	testkit.Fails(t, err, fail.Invalid, "HOST:PORT")
}

// TestPortTaken: an occupied port makes Listen fail, with the flag for another address in the error.
func TestPortTaken(t *testing.T) {
	_, at, _ := started(t, Config{})
	log := slog.New(slog.DiscardHandler)
	_, err := Listen(t.Context(), Config{ListenHTTP: at.HTTP, ListenHTTPS: "127.0.0.1:0", Log: log})
	testkit.Fails(t, err, fail.Refused, at.HTTP, "--listen-http")
}

// TestMountsSayWhoMayAskAboutWhat: a server refuses a route without role or scope.
func TestMountsSayWhoMayAskAboutWhat(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for name, m := range map[string]Mount{
		"neither": {}, "a role alone": {Need: Read}, "everything for anybody": {Scope: Everything()}, "a cluster for anybody": {Scope: Cluster("name")},
		"a role for a public route": {Need: Read, Scope: Public()}, "a role for machines": {Need: Admin, Scope: Machine()},
	} {
		m.Pattern, m.Handler = "GET /x", http.NotFoundHandler()
		_, err := Listen(t.Context(), Config{ListenHTTP: "127.0.0.1:0", ListenHTTPS: "127.0.0.1:0", Log: log, Parts: []Part{{Mounts: []Mount{m}}}})
		if fail.KindOf(err) != fail.Internal || !strings.Contains(err.Error(), "GET /x") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
