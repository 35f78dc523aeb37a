package netbooting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/front"
)

const (
	telling  = 250 * time.Millisecond // interval of the front process's reports
	again    = time.Second            // pause after the main process did not answer
	patience = time.Minute            // time limit for the main process's answer
)

// Front serves booting machines in the front process.
type Front struct {
	main      *front.Main
	log       *slog.Logger
	version   string
	files     *boot.Catalog
	known     *boot.Catalog
	handler   http.Handler
	service   *netboot.Service // nil if no interface is served
	forwarded map[string]bool  // patterns that the main process counts

	mu    sync.Mutex
	asked []string
	bytes int                    // bytes of asked
	seen  map[requests]*requests // by the request without count and time
}

// OpenFront gets the catalogs from the main process, and opens the sockets of the interface in cfg, if any.
func OpenFront(ctx context.Context, cfg netboot.Config, main *front.Main, log *slog.Logger) (*Front, error) {
	cfg.Log = log
	f := &Front{main: main, log: peer.Quiet(log), // one line for each request would be too many
		files: boot.NewCatalog(), known: boot.NewCatalog(), seen: map[requests]*requests{}, forwarded: map[string]bool{"GET /healthz": true}}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f.refresh(within); err != nil {
		return nil, err
	}
	f.handler = boot.Handler(boot.Options{Catalogs: []*boot.Catalog{f.known, f.files}, Assets: main, Fallback: f.fallback, Log: log})
	if cfg.Interface == "" {
		return f, nil
	}
	var err error
	if f.service, err = netboot.New(ctx, cfg); err != nil {
		return nil, err
	}
	f.handler = f.service.Handler(f.handler)
	return f, nil
}

// Part returns the routes of the front process: it answers the boot endpoints itself and forwards the others.
func (f *Front) Part(forwarded []Forwarded) server.Part {
	p := server.Part{Name: "boot", Run: f.run}
	for _, pattern := range netboot.Paths {
		m := server.Mount{Pattern: pattern, Handler: f.handler, On: server.Boot, Scope: server.Machine(), Stream: pattern == netboot.AssetsPath}
		if pattern == "/ipxe" {
			m.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.note(r.URL.RawQuery)
				f.handler.ServeHTTP(w, r)
			})
		}
		p.Mounts = append(p.Mounts, m)
	}
	for _, m := range forwarded {
		f.forwarded[m.Pattern] = true
		if m.Timeout > 0 {
			m.Timeout += 10 * time.Second // the main process's own timeout answer comes first
		}
		p.Mounts = append(p.Mounts, server.Mount{Pattern: m.Pattern, Handler: f.main, On: server.Boot, Scope: server.Machine(), MaxBody: m.MaxBody, Timeout: m.Timeout, Stream: m.Stream})
	}
	return p
}

// run serves the interface, follows the catalogs and reports to the main process, until ctx ends.
func (f *Front) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if f.service != nil {
		g.Go(func() error { return f.service.Run(ctx) })
	}
	g.Go(func() error {
		for ctx.Err() == nil {
			if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
				f.log.Warn("changes of the boot configuration are unknown", "reason", err.Error())
				pause(ctx, again)
			}
		}
		return nil
	})
	g.Go(func() error {
		for ctx.Err() == nil {
			pause(ctx, telling)
			if err := f.tell(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil {
				f.log.Warn("machines' boot requests are not recorded", "reason", err.Error())
				pause(ctx, again)
			}
		}
		return nil
	})
	return g.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ask sends a request to the main process.
func (f *Front) ask(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://main"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fail.Wrap(fail.Internal, err, "ask the server")
	}
	a, err := f.main.Client.Do(r)
	if err != nil {
		return 0, nil, fail.Wrap(fail.Unreachable, err, "ask the server")
	}
	defer a.Body.Close() // read to its end, or abandoned
	data, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode >= 300 {
		err = errors.New(a.Status)
	}
	if err != nil {
		return 0, nil, fail.Wrap(fail.Unreachable, err, "ask the server")
	}
	return a.StatusCode, data, nil
}

// refresh waits until the main process has new catalogs, and adopts them.
func (f *Front) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, polling+patience)
	defer cancel()
	status, data, err := f.ask(ctx, http.MethodGet, catalogPath+"?have="+url.QueryEscape(f.version), nil)
	if err != nil || status == http.StatusNoContent {
		return err
	}
	var c catalogs
	if err := json.Unmarshal(data, &c); err != nil {
		return fail.Wrap(fail.Internal, err, "read the boot configuration")
	}
	f.known.Replace(c.Registry) // the main process has logged its problems
	f.files.Replace(c.Files)
	f.version = c.Version
	return nil
}

// fallback asks for the profile of a machine that matches no group.
func (f *Front) fallback(ctx context.Context, labels map[string]string) string {
	query := url.Values{}
	for k, v := range labels {
		query.Set(k, v)
	}
	_, data, err := f.ask(ctx, http.MethodGet, profilePath+"?"+query.Encode(), nil)
	if err != nil {
		f.log.Error("whether a machine is known is not known", "reason", err.Error())
		return ""
	}
	return string(data)
}

// note records a machine's request for what to boot, for the next report.
func (f *Front) note(query string) {
	if len(query) > 1024 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) < mostAsked && f.bytes+len(query) <= maxAsked {
		f.asked = append(f.asked, query)
		f.bytes += len(query)
	}
}

// Observe counts an answer of the front process. The main process counts its own answers.
func (f *Front) Observe(r *http.Request, code int, took time.Duration) {
	if f.forwarded[r.Pattern] || len(r.Method) > 16 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := requests{Pattern: r.Pattern, Method: r.Method, Code: code}
	n := f.seen[kind]
	if n == nil {
		if len(f.seen) >= mostKinds {
			return
		}
		n = &requests{Pattern: r.Pattern, Method: r.Method, Code: code}
		f.seen[kind] = n
	}
	n.Count++
	n.Took += took
}

// tell reports to the main process.
func (f *Front) tell(ctx context.Context) error {
	f.mu.Lock()
	var t told
	t.Asked, f.asked, f.bytes = f.asked, nil, 0
	for _, n := range f.seen {
		t.Requests = append(t.Requests, *n)
	}
	clear(f.seen)
	f.mu.Unlock()
	if len(t.Asked)+len(t.Requests) == 0 {
		return nil
	}
	data, err := json.Marshal(t)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the report")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, _, err = f.ask(ctx, http.MethodPost, toldPath, data)
	return err
}
