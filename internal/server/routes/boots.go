package routes

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// waiting is the number of booting machines that wait to be recorded. If there are more at once, some are not recorded; their discovery a moment
// later is.
const waiting = 4096

// Boots makes the registry record which machines ask what to boot. No machine waits for that.
type Boots struct {
	registry *registry.Registry
	asked    chan facts.Selector
	log      *slog.Logger
}

// NewBoots returns Boots for a registry; see Run.
func NewBoots(r *registry.Registry, log *slog.Logger) *Boots {
	return &Boots{r, make(chan facts.Selector, waiting), log}
}

// Watch records the machine that sends each request, by the selector in the query.
func (b *Boots) Watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.Asked(r.URL.Query())
		next.ServeHTTP(w, r)
	})
}

// Asked records the machine that sent a query, by its selector. It never waits.
func (b *Boots) Asked(query url.Values) {
	if s, err := facts.SelectorOf(query); err == nil {
		select {
		case b.asked <- s:
		default:
		}
	}
}

// Run records boots until ctx ends. It ignores unknown machines, and machines with a key, because anybody can send a request in their name.
func (b *Boots) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-b.asked:
			if err := b.note(ctx, s); err != nil && fail.KindOf(err) != fail.NotFound && ctx.Err() == nil {
				b.log.Error("a machine's boot could not be noted", "machine", s.String(), "error", err.Error())
			}
		}
	}
}

func (b *Boots) note(ctx context.Context, s facts.Selector) error {
	m, err := b.registry.Selected(ctx, s)
	if err != nil || m.Record.Key != "" || registry.State(m.State) == registry.Booting {
		return err
	}
	return b.registry.Booted(ctx, m)
}

// IgnitionOf returns a function that asks the boot endpoints for a machine's Ignition config, as the machine itself would.
func IgnitionOf(boot http.Handler) func(ctx context.Context, query string) ([]byte, error) {
	return func(ctx context.Context, query string) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/ignition?"+query, nil)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "ask for the machine's Ignition config")
		}
		a := &kept{header: http.Header{}, status: http.StatusOK}
		boot.ServeHTTP(a, r)
		switch {
		case a.status == http.StatusNotFound:
			return nil, fail.New(fail.NotFound, "the machine has no Ignition config")
		case a.status != http.StatusOK:
			return nil, fail.New(fail.Internal, "the boot endpoints answered %d", a.status)
		}
		return a.body.Bytes(), nil
	}
}

// kept is an http.ResponseWriter that keeps the answer.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *kept) WriteHeader(status int) { k.status = status }

// Write implements http.ResponseWriter.
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }
