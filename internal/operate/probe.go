package operate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

// Limits of a probe: the interval between requests, the time limit of one request, the number of requests per connection, and the time limit for
// looking at pods and backups.
const (
	probeEvery   = 100 * time.Millisecond
	probeRequest = 5 * time.Second
	probeReuse   = 10
	probeLook    = 20 * time.Second
)

// probe repeatedly sends requests to an API while a run changes its servers. One goroutine sends one request at a time.
type probe struct {
	ask   func(context.Context) error // makes one request
	fresh func()                      // closes the connections, so that the next request opens a new one
	every time.Duration

	mu      sync.Mutex
	tried   int
	failed  int
	longest time.Duration
	since   time.Time // start of the first request since the last success; zero: the last request succeeded
}

// run sends requests until ctx ends.
func (p *probe) run(ctx context.Context) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n%probeReuse == 0 {
			p.fresh()
		}
		p.once(ctx)
	}
}

// once makes one request. A request that is aborted by the end of the run does not count.
func (p *probe) once(ctx context.Context) {
	began := time.Now()
	asking, cancel := context.WithTimeout(ctx, probeRequest)
	defer cancel()
	err := p.ask(asking)
	ended := time.Now()
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried++
	if p.since.IsZero() {
		p.since = began
	}
	p.longest = max(p.longest, ended.Sub(p.since))
	if err != nil {
		p.failed++
		return
	}
	p.since = time.Time{}
}

// counted returns what the probe has observed so far.
func (p *probe) counted() *plan.Evidence {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &plan.Evidence{Requests: p.tried, Failed: p.failed, LongestMS: p.longest.Milliseconds()}
}

// witnessed reports whether a run with this plan is observed: one that is part of an upgrade or a rotation.
func (s *Session) witnessed() bool {
	if s.Cluster == nil || s.lease == nil || !s.Cluster.Facts.Bootstrapped() {
		return false
	}
	releases, stage := s.Cluster.Course()
	return releases != "" || stage != "" || s.asked != nil && s.asked.Upgrade != nil
}

// witness starts to probe the API through the endpoint. The returned function stops the probe and returns the evidence. A failed observation is noted
// in the evidence and never fails the run.
func (s *Session) witness(ctx context.Context, p *plan.Plan) func() *plan.Evidence {
	unseen := func(err error) func() *plan.Evidence {
		return func() *plan.Evidence { return &plan.Evidence{Unknown: err.Error()} }
	}
	client, err := s.Cluster.KubeApart(ctx)
	if err != nil {
		return unseen(err)
	}
	before, err := restarts(ctx, client)
	began := time.Now()
	asker := &probe{ask: func(ctx context.Context) error { return kube.Ask(ctx, client) }, fresh: client.Close, every: probeEvery}
	probing, end := context.WithCancel(context.WithoutCancel(ctx))
	var asking sync.WaitGroup
	asking.Go(func() { asker.run(probing) })
	return func() *plan.Evidence {
		end()
		asking.Wait()
		defer client.Close()
		e := asker.counted()
		if err != nil {
			e.Unknown = err.Error()
		} else if after, err := restarts(context.WithoutCancel(ctx), client); err != nil {
			e.Unknown = err.Error()
		} else {
			n := restarted(before, after)
			e.Restarted = &n
		}
		if slices.ContainsFunc(p.Steps, func(st *plan.Step) bool { return st.ID == backups.BackupStep }) {
			s.seeBackup(context.WithoutCancel(ctx), e, began)
		}
		return e
	}
}

func restarts(ctx context.Context, c *kube.Client) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLook)
	defer cancel()
	return kube.Restarts(ctx, c)
}

// restarted counts the pods that existed before and whose containers have restarted since.
func restarted(before, after map[string]int) (n int) {
	for pod, times := range after {
		if was, there := before[pod]; there && times > was {
			n++
		}
	}
	return n
}

// seeBackup adds the newest backup that was made since the run began.
func (s *Session) seeBackup(ctx context.Context, e *plan.Evidence, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, probeLook)
	defer cancel()
	sets, err := backup.List(ctx, s.Cluster.BackupTarget(), s.Record.Name)
	if err != nil {
		e.Unknown = err.Error()
		return
	}
	newest := since.Truncate(time.Second)
	for _, set := range sets {
		if !set.CreatedAt.Before(newest) {
			newest, e.Backup, e.Proven = set.CreatedAt, set.ID, set.Proven()
		}
	}
}
