// Package notify announces what needs a person to the webhooks that the server's administrator adds: Slack, Microsoft Teams, or any that takes JSON.
//
// It compares what the store holds now (jobs, runs, health, duties, machines) with what it last announced to each receiver, which the store keeps, too. So
// it has no queue: a receiver that was away gets how things are then. Of several servers on a store the oldest does it. The package changes nothing else.
package notify

import (
	"context"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// Limits of announcing.
const (
	usual      = 10 * time.Second // between looks at the store
	perMinute  = 6                // messages to one receiver
	attempts   = 4                // requests for one message, in a row
	firstPause = time.Minute      // after these
	mostPause  = 15 * time.Minute // the pause doubles up to this
	giveUp     = 24 * time.Hour   // what could not be delivered for so long is dropped
	quiet      = time.Minute      // between lines in the log
)

// Config configures a notifier.
type Config struct {
	Store     store.Store
	Self      string                          // ID of this server, as in Servers
	Ping      func(ctx context.Context) error // checks that the store can be written
	Unwritten func() bool                     // the last entry could not be written into the audit log
	Pages     string                          // address of the server's pages in browsers; empty: messages have no links
	Counted   func(webhook, outcome string)   // receives each outcome: sent, failed, dropped; may be nil
	Log       *slog.Logger
	Every     time.Duration // between looks; 0: 10 s
	Backoff   time.Duration // before the second of several attempts, then four times as long each time; 0: 1 s
}

// Notifier announces what needs a person while Run runs.
type Notifier struct {
	c     Config
	hooks Webhooks

	// Only Run's goroutine uses these.
	seen    map[string]seen
	reports map[string]reported
	round   int
	leads   bool

	mu        sync.Mutex
	receivers map[string]*receiver // by name
	logged    time.Time
	sending   sync.WaitGroup
}

// receiver is a webhook while the server runs.
type receiver struct {
	*sealed
	record
	unsaved bool        // record differs from the store
	busy    bool        // a delivery is under way
	sent    []time.Time // in the last minute
	not     time.Time   // before which nothing is sent
	pause   time.Duration
}

// New returns a notifier.
func New(c Config) *Notifier {
	if c.Every <= 0 {
		c.Every = usual
	}
	if c.Backoff <= 0 {
		c.Backoff = time.Second
	}
	if c.Counted == nil {
		c.Counted = func(string, string) {}
	}
	return &Notifier{c: c, hooks: NewWebhooks(c.Store.ServerSecrets()), seen: map[string]seen{}, reports: map[string]reported{}, receivers: map[string]*receiver{}}
}

// Run announces until ctx ends. Then it waits for the requests that are under way, so that the next server does not repeat them.
func (w *Notifier) Run(ctx context.Context) error {
	defer w.sending.Wait()
	tick := time.NewTicker(w.c.Every)
	defer tick.Stop()
	for {
		w.once(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// once looks at the store, and starts to announce what the receivers do not know yet.
func (w *Notifier) once(ctx context.Context) {
	defer func() {
		if why := recover(); why != nil { // the server keeps running
			w.complain("the search for announcements to webhooks panicked", "panic", why, "stack", string(debug.Stack()))
		}
	}()
	if err := w.load(ctx); err != nil && ctx.Err() == nil {
		w.complain("the webhooks could not be read", "error", err.Error())
	}
	w.mu.Lock()
	idle := !w.leads || len(w.receivers) == 0
	w.mu.Unlock()
	if idle || ctx.Err() != nil {
		return
	}
	all := w.server(ctx)
	v, err := w.look(ctx)
	if err == nil {
		all = append(all, w.needs(ctx, &v)...)
		w.forget(v.clusters)
	} else if ctx.Err() == nil {
		w.complain("the store could not be searched for announcements to webhooks", "error", err.Error())
	}
	if ctx.Err() == nil {
		w.announce(ctx, all)
	}
}

// load reads the webhooks. While the store does not answer, the known ones stay.
func (w *Notifier) load(ctx context.Context) error {
	servers, err := w.c.Store.Servers(ctx)
	if err != nil {
		return err
	}
	led := w.leads
	w.leads = len(servers) > 0 && servers[0].ID == w.c.Self // the oldest
	names, err := w.hooks.names(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leads || !led { // another server may have announced something
		clear(w.receivers)
	}
	if !w.leads {
		return nil
	}
	maps.DeleteFunc(w.receivers, func(name string, _ *receiver) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		s, err := w.hooks.get(ctx, name)
		if err != nil {
			if fail.KindOf(err) != fail.NotFound { // it was not removed meanwhile
				w.complainLocked("a webhook can't be read", "webhook", name, "error", err.Error())
			}
			continue
		}
		if r := w.receivers[name]; r != nil && r.sealed.ID == s.ID {
			continue
		}
		r, err := w.hooks.record(ctx, s)
		if err != nil {
			w.complainLocked("the announcements to a webhook can't be read", "webhook", name, "error", err.Error())
			continue
		}
		w.receivers[name] = &receiver{sealed: s, record: r}
	}
	return nil
}

// forget removes what is known of clusters that are gone.
func (w *Notifier) forget(clusters []store.Cluster) {
	gone := func(key string) bool {
		id, _, _ := strings.Cut(key, "/")
		return id != "server" && !slices.ContainsFunc(clusters, func(c store.Cluster) bool { return c.ID == id })
	}
	maps.DeleteFunc(w.seen, func(key string, _ seen) bool { return gone(key) })
	maps.DeleteFunc(w.reports, func(id string, _ reported) bool { return gone(id) })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.receivers {
		before := len(r.Announced)
		maps.DeleteFunc(r.Announced, func(key string, _ announced) bool { return gone(key) })
		r.unsaved = r.unsaved || len(r.Announced) != before
	}
}

// complain writes a line to the log, at most one in a minute.
func (w *Notifier) complain(what string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complainLocked(what, args...)
}

func (w *Notifier) complainLocked(what string, args ...any) {
	if now := time.Now(); now.Sub(w.logged) >= quiet {
		w.logged = now
		w.c.Log.Warn(what, args...)
	}
}
