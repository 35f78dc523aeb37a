package netbooting_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cli/netbooting"
	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/front"
	"github.com/naupegos/naupegos/internal/testkit"
)

// two is a main server and a front, in one process.
type two struct {
	t      *testing.T
	boot   string // directory
	socket string // of the main server
	front  string // address
	stop   func() // ends the main server

	mu      sync.Mutex
	asked   []url.Values
	counted []string
}

// newTwo starts both. The main server has an open route that returns the client's address, and a route for operators.
func newTwo(t *testing.T, proxies ...string) *two {
	w := &two{t: t, boot: netbooting.Dir(t.TempDir()), socket: filepath.Join(t.TempDir(), "socket")}
	log := slog.New(slog.DiscardHandler)
	w.write("profiles/worker.json", `{"id": "worker", "generic_id": "g", "boot": {"kernel": "/assets/k"}}`)
	w.write("generic/g", "caf\xe9")
	w.write("groups/all.json", `{"id": "all", "profile": "worker", "selector": {"os": "yes"}}`)
	site := testkit.Value(netbooting.Open(&netbooting.Flags{}, filepath.Dir(w.boot), "127.0.0.1:0", log))(t)
	site.Fallback = func(_ context.Context, labels map[string]string) string {
		if labels["uuid"] == "known" {
			return "worker"
		}
		return ""
	}
	machines := server.Part{Name: "machines", Mounts: append(site.FrontMounts(w.hear, w.count),
		server.Mount{Pattern: "POST /whose", On: server.Boot, Scope: server.Machine(), MaxBody: 100, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s %v", server.Remote(r), r.Host, body, r.Header["X-Forwarded-For"])
		})},
		server.Mount{Pattern: "GET /operators", Need: server.Read, Scope: server.Everything(), Handler: http.NotFoundHandler()})}
	boot := site.Part()
	limits := server.Limits{Connections: 40, PerAddress: 10}
	prefixes := testkit.Value(server.ParseProxies(proxies))(t)
	w.stop = w.serve(server.Config{HTTP: testkit.Value(net.Listen("unix", w.socket))(t), OfFront: true, Around: front.Believe, Limits: limits, Proxies: prefixes, Parts: []server.Part{machines, boot}, Log: log})
	main := front.NewMain(front.Settings{Requests: w.socket})
	f := testkit.Value(netbooting.OpenFront(t.Context(), netboot.Config{}, main, log))(t)
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	w.front = l.Addr().String()
	w.serve(server.Config{HTTP: l, Around: front.Hide, Healthz: main, Limits: limits, Proxies: prefixes, Parts: []server.Part{f.Part(netbooting.ForwardedOf([]server.Part{machines, boot}))},
		Observe: f.Observe, Log: log})
	return w
}

func (w *two) serve(c server.Config) (stop func()) {
	c.Drain = 100 * time.Millisecond
	s := testkit.Value(server.Listen(w.t.Context(), c))(w.t)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); testkit.Must(w.t, <-done) })
	w.t.Cleanup(stop)
	return stop
}

func (w *two) write(name, text string) {
	path := filepath.Join(w.boot, name)
	testkit.Must(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(w.t, os.WriteFile(path, []byte(text), 0o644))
}

func (w *two) hear(query url.Values) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, query)
}

func (w *two) count(r *http.Request, code int, _ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted = append(w.counted, fmt.Sprint(r.Method, " ", r.Pattern, " ", code))
}

// ask sends the front a request from an address.
func (w *two) ask(from, method, path, body string, header ...string) (int, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	r := testkit.Value(http.NewRequestWithContext(ctx, method, "http://"+w.front+path, strings.NewReader(body)))(w.t)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
	resp := testkit.Value(c.Do(r))(w.t)
	defer resp.Body.Close()
	data := testkit.Value(io.ReadAll(resp.Body))(w.t)
	return resp.StatusCode, string(data)
}

// TestFrontAnswersMachines: the front answers machines from the main server's catalogs, follows their changes, and reports the requests.
func TestFrontAnswersMachines(t *testing.T) {
	w := newTwo(t)
	for _, c := range []struct {
		path string
		code int
		has  string
	}{
		{"/ipxe?os=yes&uuid=one", 200, "kernel /assets/k"}, {"/generic?os=yes", 200, "caf\xe9"}, {"/ipxe?uuid=known", 200, "kernel /assets/k"}, {"/ipxe?uuid=unknown", 404, ""},
		{"/", 200, "matchbox"}, {"/operators", 404, "nothing"}, {front.Prefix + "catalog", 404, "not found"},
		{strings.ReplaceAll(front.Prefix, ".", "%2e") + "catalog", 404, "not found"},
	} {
		if code, body := w.ask("127.0.0.1", "GET", c.path, ""); code != c.code || !strings.Contains(body, c.has) {
			t.Errorf("%s: %d %q", c.path, code, body)
		}
	}
	testkit.Until(t, 20*time.Second, 20*time.Millisecond, func() error {
		code, body := w.ask("127.0.0.1", "GET", "/healthz", "")
		if code != 200 || !strings.Contains(body, `"boot directory":true`) { // once the main server watches it
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	testkit.Until(t, 20*time.Second, 20*time.Millisecond, func() error {
		w.mu.Lock()
		asked, counted := len(w.asked), slices.Clone(w.counted)
		w.mu.Unlock()
		for _, want := range []string{"GET /ipxe 200", "GET /ipxe 404", "GET /generic 200", "GET /{$} 200"} {
			if !slices.Contains(counted, want) {
				return fmt.Errorf("%s is not counted: %v", want, counted)
			}
		}
		if asked != 3 || slices.Contains(counted, "GET GET /healthz 200") { // the main server counts its own answers
			return fmt.Errorf("%d have asked, and %v", asked, counted)
		}
		return nil
	})
}

// TestFrontFollowsTheDirectory: machines soon see a change of the boot directory.
func TestFrontFollowsTheDirectory(t *testing.T) {
	w := newTwo(t)
	testkit.Until(t, 20*time.Second, 20*time.Millisecond, func() error {
		w.write("profiles/worker.json", `{"id": "worker", "boot": {"kernel": "/assets/other"}}`) // its watch may not have begun
		if _, body := w.ask("127.0.0.1", "GET", "/ipxe?os=yes", ""); !strings.Contains(body, "kernel /assets/other") {
			return fmt.Errorf("%q", body)
		}
		return nil
	})
}

// TestClientOfTheFront: the main server sees the address of a client, behind a proxy or not, regardless of the client's headers.
func TestClientOfTheFront(t *testing.T) {
	w := newTwo(t, "127.0.0.7")
	for name, c := range map[string]struct {
		from   string
		header []string
		want   string
	}{
		"direct":                {from: "127.0.0.3", want: "127.0.0.3"},
		"lies about the front":  {from: "127.0.0.3", header: []string{"Naupegos-Front-Client", "10.0.0.1:1"}, want: "127.0.0.3"},
		"drops the header":      {from: "127.0.0.3", header: []string{"Connection", "Naupegos-Front-Client"}, want: "127.0.0.3"},
		"lies about a proxy":    {from: "127.0.0.3", header: []string{"X-Forwarded-For", "10.0.0.1"}, want: "127.0.0.3"},
		"by the proxy":          {from: "127.0.0.7", header: []string{"X-Forwarded-For", "10.9.9.9, 10.0.0.1"}, want: "10.0.0.1"},
		"the proxy itself":      {from: "127.0.0.7", want: "127.0.0.7"},
		"proxies in a row":      {from: "127.0.0.7", header: []string{"X-Forwarded-For", "2001:db8::1, 127.0.0.7"}, want: "2001:db8::1"},
		"the proxy about front": {from: "127.0.0.7", header: []string{"Naupegos-Front-Client", "10.0.0.1:1"}, want: "127.0.0.7"},
	} {
		code, body := w.ask(c.from, "POST", "/whose", "hello", c.header...)
		if want := c.want + " " + w.front + " hello []"; code != 200 || body != want {
			t.Errorf("%s: %d %q, want %q", name, code, body, want)
		}
	}
	if code, body := w.ask("127.0.0.3", "POST", "/whose", strings.Repeat("x", 101)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d %s", code, body)
	}
}

// TestLimitsAreTheClients: the front counts connections by client address, and the socket between the two servers limits no client.
func TestLimitsAreTheClients(t *testing.T) {
	w := newTwo(t)
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
		c := testkit.Value(d.DialContext(t.Context(), "tcp", w.front))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	begin := func(c net.Conn) net.Conn { // the request waits for the last byte of its body
		testkit.Must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, _ = io.WriteString(c, "POST /whose HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx") // refused, perhaps
		return c
	}
	answered := func(c net.Conn) bool {
		_, _ = io.WriteString(c, "x") // refused, perhaps
		b := make([]byte, 12)
		_, err := io.ReadFull(c, b)
		return err == nil && string(b) == "HTTP/1.1 200"
	}
	var open []net.Conn
	for range 10 {
		open = append(open, begin(dial("127.0.0.3")))
	}
	open = append(open, begin(dial("127.0.0.3"))) // makes the address's longest wait end
	for i := range 20 {                           // more than one address may have, all forwarded over the socket at once
		open = append(open, begin(dial(fmt.Sprintf("127.0.1.%d", 1+i))))
	}
	for i, c := range open[11:] {
		if !answered(c) {
			t.Errorf("connection %d is not answered", 11+i)
		}
	}
	ended := 0
	for _, c := range open[:11] {
		if !answered(c) {
			ended++
		}
	}
	if ended != 1 {
		t.Errorf("of 11 connections of an address, %d were ended", ended)
	}
}

// TestMainIsGone: without the main server, machines still get answers, and are told when to ask again.
func TestMainIsGone(t *testing.T) {
	w := newTwo(t)
	w.stop()
	if code, body := w.ask("127.0.0.1", "GET", "/ipxe?os=yes", ""); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	for method, path := range map[string]string{"POST": "/whose", "GET": "/healthz"} {
		if code, body := w.ask("127.0.0.1", method, path, ""); code < 500 || !strings.Contains(body, "ask again") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// TestFrontIsNotTrusted: an attacker in the front process can't fill the metrics, keep the main server busy or reach routes for operators.
func TestFrontIsNotTrusted(t *testing.T) {
	w := newTwo(t)
	c := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", w.socket)
	}}}
	t.Cleanup(c.CloseIdleConnections)
	for path, code := range map[string]int{"/operators": 404, "/ipxe": 404, "/metrics": 404, "/assets/k": 404} {
		resp := testkit.Value(c.Get("http://main" + path))(t)
		_ = resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	began := time.Now()
	for _, report := range []string{
		`{"requests": [{"pattern": "/made-up", "method": "GET", "code": 200, "count": 1}]}`, `{"requests": [{"pattern": "/ipxe", "method": "GET", "code": 200, "count": 2000000000}]}`,
		`{"requests": [{"pattern": "/ipxe", "method": "GET", "code": 200, "count": 0}]}`, `{"requests": [{"pattern": "/ipxe", "method": "GET", "code": 200, "count": -1}]}`,
		`{"requests": [{"pattern": "/ipxe", "method": "GET", "code": 77777, "count": 1}]}`, `{"asked": ["%zz", ""]}`, `{`, `[]`, strings.Repeat(" ", 5<<20),
	} {
		resp := testkit.Value(c.Post("http://main"+front.Prefix+"told", "application/json", strings.NewReader(report)))(t)
		_ = resp.Body.Close()
		if resp.StatusCode >= 500 {
			t.Errorf("%.80s: %d", report, resp.StatusCode)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.counted {
		if !strings.HasPrefix(n, "GET /ipxe 200") {
			t.Errorf("counted: %s", n)
		}
	}
	if len(w.counted) > 0 || time.Since(began) > 10*time.Second {
		t.Errorf("%d were counted, after %s", len(w.counted), time.Since(began))
	}
}
