package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// local is a cloud with one service, which answers with a link to itself and counts its calls.
type local struct {
	*httptest.Server
	heard atomic.Int32
}

func (l *local) Address() string                { return "127.0.0.1" }
func (l *local) CloudsYAMLAt(url string) []byte { return []byte("auth_url: " + url + "\n") }

func start(t *testing.T) (*local, *Proxy, string) {
	t.Helper()
	l := &local{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.heard.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", l.URL+"/made")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		fmt.Fprintf(w, `{"host": %q, "path": %q, "next": "%s/more?marker=1"}`, r.Host, r.URL.RequestURI(), l.URL)
	}))
	t.Cleanup(l.Close)
	p, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	_, port, err := net.SplitHostPort(l.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return l, p, p.URL() + "/port" + port
}

// call sends one call over a connection of its own, so that the client does not retry it.
func call(t *testing.T, method, url string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func TestForward(t *testing.T) {
	l, p, url := start(t)
	resp, body, err := call(t, http.MethodPost, url+"/v2.0/ports?tags=a%2Fb&limit=1")
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%v %v", resp, err)
	}
	want := fmt.Sprintf(`{"host": %q, "path": "/v2.0/ports?tags=a%%2Fb&limit=1", "next": "%s/more?marker=1"}`, l.Listener.Addr(), url)
	if body != want {
		t.Errorf("got %s\nwant %s", body, want)
	}
	if got := resp.Header.Get("Location"); got != url+"/made" {
		t.Errorf("Location is %s", got)
	}
	calls := p.Calls()
	if len(calls) != 1 || calls[0].N != 1 || calls[0].Status != 201 || calls[0].Faulty || !strings.HasSuffix(calls[0].String(), " POST /v2.0/ports?tags=a%2Fb&limit=1") {
		t.Errorf("calls: %+v", calls)
	}
	p.Reset()
	if len(p.Calls()) != 0 {
		t.Error("Reset did not delete the calls")
	}
}

func TestStatus(t *testing.T) {
	l, p, url := start(t)
	p.FailAt(2, Fault{Status: http.StatusTooManyRequests, RetryAfter: 3 * time.Second})
	for i, want := range []int{200, 429, 200} {
		resp, body, err := call(t, http.MethodGet, url+"/")
		if err != nil || resp.StatusCode != want {
			t.Fatalf("call %d: %v %v", i+1, resp, err)
		}
		if want == 429 && (resp.Header.Get("Retry-After") != "3" || !strings.Contains(body, "injected by the fault proxy")) {
			t.Errorf("answer: %v %s", resp.Header, body)
		}
	}
	if got := l.heard.Load(); got != 2 {
		t.Errorf("the service got %d calls, want 2", got)
	}
	if c := p.Calls(); !c[1].Faulty || c[1].Status != 429 || c[0].Faulty || c[2].Faulty {
		t.Errorf("calls: %+v", c)
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		cut   Cut
		heard int32
	}{{Before, 0}, {After, 1}} {
		l, p, url := start(t)
		p.FailAt(1, Fault{Cut: tc.cut})
		resp, _, err := call(t, http.MethodPost, url+"/x")
		if err == nil {
			t.Fatalf("cut %d: answered %s", tc.cut, resp.Status)
		}
		var operr *net.OpError
		if !errors.As(err, &operr) && !errors.Is(err, io.EOF) {
			t.Errorf("cut %d: %v is not what a cut looks like", tc.cut, err)
		}
		if got := l.heard.Load(); got != tc.heard {
			t.Errorf("cut %d: the service got %d calls, want %d", tc.cut, got, tc.heard)
		}
		if c := p.Calls(); len(c) != 1 || c[0].Status != 0 || !c[0].Faulty {
			t.Errorf("cut %d: calls %+v", tc.cut, c)
		}
	}
}

func TestDelayAndRules(t *testing.T) {
	_, p, url := start(t)
	p.FailWhen(func(c Call) bool { return c.Method == http.MethodDelete }, 2, Fault{Status: 503, Delay: 50 * time.Millisecond})
	began := time.Now()
	var got []int
	for _, m := range []string{http.MethodGet, http.MethodDelete, http.MethodDelete, http.MethodDelete} {
		resp, _, err := call(t, m, url+"/x")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, resp.StatusCode)
	}
	if fmt.Sprint(got) != "[200 503 503 200]" {
		t.Errorf("answers %v", got)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("two delays of 50 ms took %s", took)
	}
}

func TestNoAnswer(t *testing.T) {
	l, _, url := start(t)
	l.Close()
	resp, body, err := call(t, http.MethodGet, url+"/x")
	if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "no answer") {
		t.Errorf("%v %s %v", resp, body, err)
	}
}

func TestCloudsYAML(t *testing.T) {
	_, p, _ := start(t)
	dir := t.TempDir()
	file, err := p.CloudsYAML(dir)
	if err != nil || file != filepath.Join(dir, "clouds.yaml") {
		t.Fatal(file, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "auth_url: "+p.URL()+"/port5000/v3\n" {
		t.Errorf("%s %v", data, err)
	}
}

// TestSettle: a service does not notice that its client has disconnected, and Settle waits for the service.
func TestSettle(t *testing.T) {
	heard, goOn := make(chan struct{}), make(chan struct{})
	var gone, done atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(heard)
		<-goOn
		gone.Store(r.Context().Err() != nil)
		done.Store(true)
	}))
	t.Cleanup(srv.Close)
	p, err := New(&local{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/port"+port+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	<-heard
	kill()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Settle(short); err == nil {
		t.Error("Settle did not wait for the call in progress")
	}
	close(goOn)
	if err := p.Settle(t.Context()); err != nil || !done.Load() || gone.Load() {
		t.Errorf("%v; the service finished the call: %t; it noticed that the client disconnected: %t", err, done.Load(), gone.Load())
	}
}
