package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"sync"
	"time"
)

// call is a request without its IDs.
type call struct{ method, path string }

var anID = regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}`)

func (c call) reads() bool { return c.method == http.MethodGet || c.method == http.MethodHead }

// counter is a forward proxy that counts requests and does not change them. Both sides use it, so that counting costs both the same.
type counter struct {
	url    string
	server *http.Server

	mu    sync.Mutex
	calls map[call]int
}

// newCounter starts the proxy on a free port of the loopback.
func newCounter() (*counter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{url: "http://" + l.Addr().String(), calls: map[call]int{}}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // requests to a proxy contain the full address
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { // an unreachable service must not look like one that answers 502
			panic(http.ErrAbortHandler)
		},
	}
	c.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || !r.URL.IsAbs() {
			http.Error(w, "only plain HTTP can be counted", http.StatusNotImplemented)
			return
		}
		c.mu.Lock()
		c.calls[call{r.Method, ":" + r.URL.Port() + anID.ReplaceAllString(r.URL.Path, "ID")}]++
		c.mu.Unlock()
		forward.ServeHTTP(w, r)
	})}
	go func() {
		if err := c.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("the counting proxy ended: %v", err)) // its counts would be wrong
		}
	}()
	return c, nil
}

// take returns the requests since the last call.
func (c *counter) take() map[call]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.calls
	c.calls = map[call]int{}
	return taken
}

// sum returns the number of requests and how many of them only read.
func sum(calls map[call]int) (all, reads int) {
	for c, n := range calls {
		all += n
		if c.reads() {
			reads += n
		}
	}
	return all, reads
}

// printCalls prints the requests, the most frequent first.
func printCalls(w io.Writer, calls map[call]int) {
	for _, c := range slices.SortedFunc(maps.Keys(calls), func(a, b call) int {
		return cmp.Or(calls[b]-calls[a], cmp.Compare(a.path, b.path), cmp.Compare(a.method, b.method))
	}) {
		fmt.Fprintf(w, "  %5d %-6s %s\n", calls[c], c.method, c.path)
	}
}

var _ io.Closer = (*counter)(nil)

// Close stops the proxy.
func (c *counter) Close() error { return c.server.Close() }
