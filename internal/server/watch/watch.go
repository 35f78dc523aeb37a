// Package watch looks at clusters at intervals and records their health, so that pages and metrics show it at once, with its age.
//
// Only one of several servers on a store looks at a cluster at a time. A look changes nothing. The package does not depend on HTTP.
package watch

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
)

// Limits of the looks of one server.
const (
	Usual    = time.Minute      // usual interval between looks at a cluster
	deadline = 45 * time.Second // time limit of one look
	most     = 4                // number of looks at once
	// share limits the time that a server spends on one cluster: a look that took a minute is repeated after ten.
	share = 10
)

// Config configures a watcher.
type Config struct {
	Store store.Store
	// Look observes a cluster.
	Look  func(ctx context.Context, cluster string) (*report.Status, error)
	Every time.Duration // interval between looks at a cluster
	Self  string        // unique ID of this server
	Log   *slog.Logger
	Tick  time.Duration // interval between searches for due looks; 0: a tenth of Every, between 100 ms and 5 s
}

// Watcher looks at clusters.
type Watcher struct{ c Config }

// New returns a watcher, which looks at clusters while Run runs.
func New(c Config) *Watcher {
	if c.Tick <= 0 {
		c.Tick = min(max(c.Every/10, 100*time.Millisecond), 5*time.Second)
	}
	return &Watcher{c}
}

// Run looks at clusters until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTicker(w.c.Tick)
	defer tick.Stop()
	slots := make(chan struct{}, most)
	var looking sync.WaitGroup
	defer looking.Wait()
	for {
		if err := w.round(ctx, slots, &looking); err != nil && ctx.Err() == nil {
			w.c.Log.Error("clusters that are due for a look were not found", "error", err.Error())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// round starts the looks that are due, and waits for a free slot before each.
func (w *Watcher) round(ctx context.Context, slots chan struct{}, looking *sync.WaitGroup) error {
	all, err := w.c.Store.Clusters(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		mine, err := w.c.Store.Health().Take(ctx, c.ID, w.c.Self, deadline+15*time.Second)
		if err != nil || !mine {
			<-slots
			if err != nil {
				return err
			}
			continue
		}
		looking.Go(func() {
			defer func() { <-slots }()
			w.look(ctx, c)
		})
	}
	return nil
}

// look looks at one cluster and records its health.
func (w *Watcher) look(ctx context.Context, c store.Cluster) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	s, err := w.see(bounded, c.Name)
	if ctx.Err() != nil { // this server stops, and the reservation expires
		return
	}
	if err != nil && bounded.Err() != nil {
		err = fail.New(fail.Unreachable, "no answer within %s", deadline)
	}
	r, err := recordOf(c.ID, c.Name, s, err)
	if err == nil {
		err = w.c.Store.Health().Put(ctx, w.c.Self, r, max(w.c.Every, share*time.Since(began)))
	}
	if err != nil && ctx.Err() == nil && fail.KindOf(err) != fail.Conflict {
		w.c.Log.Error("the health of a cluster was not recorded", "cluster", c.Name, "error", err.Error())
	}
}

// see calls Look, and turns a panic into an error.
func (w *Watcher) see(ctx context.Context, name string) (s *report.Status, err error) {
	defer func() {
		if why := recover(); why != nil {
			w.c.Log.Error("a look at a cluster panicked", "cluster", name, "panic", why)
			err = fail.New(fail.Internal, "this is a defect of naupegos; the server's log has details")
		}
	}()
	return w.c.Look(ctx, name)
}

// recordOf returns the record of a look's result.
func recordOf(id, name string, s *report.Status, seen error) (r health.Record, err error) {
	r.ClusterID = id
	r.State, r.Cause, r.Remedy = Judge(name, s, seen)
	if seen != nil {
		return r, nil
	}
	if r.Summary, err = json.Marshal(Sum(s)); err == nil {
		r.Report, err = json.Marshal(s)
	}
	return r, err
}
