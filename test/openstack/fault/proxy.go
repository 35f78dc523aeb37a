// Package fault is an HTTP proxy in front of all services of an OpenStack. It counts calls, and a test can make it answer, delay or cut the N-th
// one.
//
// One listener serves all services: the service at http://ADDRESS:9696 becomes http://PROXY/port9696, and the proxy rewrites every address of the
// cloud in an answer (the catalog, links to further pages). The package does not know the content of calls.
package fault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Cloud is what the proxy needs to know about the OpenStack; *bed.Bed implements it.
type Cloud interface {
	Address() string                    // of all API services
	CloudsYAMLAt(authURL string) []byte // clouds.yaml with Keystone at another address
}

// Call is one call through the proxy. It contains no header and no body, and therefore no secret.
type Call struct {
	N       int    // 1 for the first since the last Reset
	Service string // the service type in the catalog: identity, image, compute, network, volumev3, load-balancer, placement; else the port
	Method  string
	Path    string // below the service's address, such as /v2.0/ports
	Query   string
	Status  int  // status for the client; 0 if it got no answer
	Faulty  bool // a fault was applied
}

// String renders a call as "compute GET /v2.1/servers/detail?name=a".
func (c Call) String() string {
	s := c.Service + " " + c.Method + " " + c.Path
	if c.Query != "" {
		s += "?" + c.Query
	}
	return s
}

// Proxy serves an OpenStack until Close. Its methods may be called while calls are in progress.
type Proxy struct {
	cloud    Cloud
	listener net.Listener
	server   *http.Server
	forward  *httputil.ReverseProxy

	mu    sync.Mutex
	under sync.WaitGroup // calls in progress
	calls []Call
	at    map[int]Fault
	rules []rule
}

// New starts a proxy on a free port of 127.0.0.1.
func New(cloud Cloud) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "start the fault proxy")
	}
	p := &Proxy{cloud: cloud, listener: l, at: map[int]Fault{}}
	p.forward = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.Host = r.Out.URL.Host },
		ModifyResponse: p.answered,
		ErrorHandler:   failed,
		ErrorLog:       log.New(io.Discard, "", 0), // tests see failures as their clients do
		// A connection of its own for each call: when the cloud closes an idle connection, that must not look like a fault.
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.server.Serve(l) }() // returns after Close
	return p, nil
}

// prefix precedes the port of a service in the proxy's paths. Clients would take a bare number for an API version.
const prefix = "/port"

// URL is the address of the proxy.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// AuthURL is Keystone's address through the proxy.
func (p *Proxy) AuthURL() string { return p.URL() + prefix + "5000/v3" }

// CloudsYAML writes a clouds.yaml (mode 0600) whose clouds use the proxy into dir, and returns its path.
func (p *Proxy) CloudsYAML(dir string) (string, error) {
	file := filepath.Join(dir, "clouds.yaml")
	return file, os.WriteFile(file, p.cloud.CloudsYAMLAt(p.AuthURL()), 0o600)
}

// Close stops the proxy and closes all its connections.
func (p *Proxy) Close() error { return p.server.Close() }

// Reset forgets all calls and all faults; the next call is number 1.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls, p.at, p.rules = nil, map[int]Fault{}, nil
}

// Calls returns all calls since the last Reset in the order of arrival.
func (p *Proxy) Calls() []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Call(nil), p.calls...)
}

// Settle waits until no call is in progress. Services finish a call although its client has disconnected, and so does the proxy: only then does
// the result of a killed client's call exist.
func (p *Proxy) Settle(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); p.under.Wait() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fail.Wrap(fail.NotReady, ctx.Err(), "wait for calls under way")
	}
}

// begin counts a call and returns its fault.
func (p *Proxy) begin(c Call) (n int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.N = len(p.calls) + 1
	f, hit := p.at[c.N]
	for i := 0; !hit && i < len(p.rules); i++ {
		if r := &p.rules[i]; r.times > 0 && r.match(c) {
			r.times--
			f, hit = r.fault, true
		}
	}
	c.Faulty = hit
	p.calls = append(p.calls, c)
	return c.N, f
}

// end records the status for the client. It ignores a call from before a Reset.
func (p *Proxy) end(n, status int, of Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n <= len(p.calls) && p.calls[n-1].String() == of.String() {
		p.calls[n-1].Status = status
	}
}

// services maps default ports to service types.
var services = map[string]string{
	"5000": "identity", "9292": "image", "8778": "placement", "8774": "compute", "9696": "network", "8776": "volumev3", "9876": "load-balancer",
	"9001": "dns",
}

// ServeHTTP forwards one call.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	port, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), prefix), "/")
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		http.Error(w, "the path has to begin with "+prefix+" and the port of a service", http.StatusBadGateway)
		return
	}
	target, err := url.Parse("http://" + net.JoinHostPort(p.cloud.Address(), port) + "/" + path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	target.RawQuery = r.URL.RawQuery
	call := Call{Service: port, Method: r.Method, Path: "/" + path, Query: r.URL.RawQuery}
	if name, ok := services[port]; ok {
		call.Service = name
	}
	p.under.Add(1)
	defer p.under.Done()
	n, f := p.begin(call)
	if !f.wait(r.Context()) {
		return
	}
	if f.Cut == Before {
		hangUp(w)
		return
	}
	if f.Status != 0 {
		f.answer(w)
		p.end(n, f.Status, call)
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	r = r.WithContext(withCarried(ctx, carried{n: n, call: call, cut: f.Cut == After}))
	r.URL = target
	p.forward.ServeHTTP(w, r)
}

// errCut makes the reverse proxy hang up although the service has answered.
var errCut = errors.New("cut after the answer")

// answered rewrites the cloud's addresses in an answer. If the call is to be cut, it reads the whole answer and then fails.
func (p *Proxy) answered(resp *http.Response) error {
	c := carriedIn(resp.Request.Context())
	kind := resp.Header.Get("Content-Type")
	if !c.cut && !strings.Contains(kind, "json") && !strings.Contains(kind, "text") && kind != "" {
		p.end(c.n, resp.StatusCode, c.call)
		return nil // an image: it is large and contains no addresses
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if c.cut {
		return errCut
	}
	own, ours := "http://"+p.cloud.Address()+":", p.URL()+prefix
	body = bytes.ReplaceAll(body, []byte(own), []byte(ours))
	if at := resp.Header.Get("Location"); at != "" {
		resp.Header.Set("Location", strings.ReplaceAll(at, own, ours))
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	if resp.Request.Method != http.MethodHead && len(body) > 0 {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	p.end(c.n, resp.StatusCode, c.call)
	return nil
}

// failed answers for a service that did not answer, and hangs up on cut calls.
func failed(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, errCut) {
		hangUp(w)
		return
	}
	http.Error(w, "the fault proxy got no answer: "+err.Error(), http.StatusBadGateway)
}
