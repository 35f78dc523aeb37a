//go:build integration

package etcd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// gate pauses writers like a stopped program: requests in progress continue.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed: one may go through
}

func (g *gate) wait() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func (g *gate) quiet(context.Context) func() {
	open := make(chan struct{})
	g.mu.Lock()
	g.open = open
	g.mu.Unlock()
	return func() { close(open) }
}

// TestHandOver lets the leader hand over repeatedly while clients write through every member. Writers that pause during a handover lose nothing.
func TestHandOver(t *testing.T) {
	s := newServers(t)
	names := []string{"a", "b", "c"}
	s.bootstrap(names...)
	c, _ := s.connect(names...)
	testkit.Must(t, c.WaitHealthy(t.Context(), len(names)))
	g := &gate{open: make(chan struct{})}
	close(g.open)
	for _, quiet := range []bool{true, false} {
		if c.quiet = nil; quiet {
			c.quiet = g.quiet
		}
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var writers sync.WaitGroup
		written, failed := 0, []string{}
		for w := range 2 * len(c.endpoints) {
			via := c.one[c.endpoints[w%len(c.endpoints)].URL]
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					g.wait()
					rctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					_, err := via.Put(rctx, fmt.Sprintf("hand-over-%d-%d", w, i), "v")
					cancel()
					mu.Lock()
					if written++; err != nil {
						failed = append(failed, err.Error())
					}
					mu.Unlock()
				}
			})
		}
		const times = 20
		for range times {
			members := testkit.Value(c.Members(t.Context()))(t)
			health := s.whenHealth(t.Context(), t, c, members, "there is a leader", func(all []Health) bool {
				return slices.ContainsFunc(all, func(h Health) bool { return h.Leader })
			})
			leader := health[slices.IndexFunc(health, func(h Health) bool { return h.Leader })]
			testkit.Must(t, c.MoveLeader(t.Context(), leader.ID))
		}
		stop()
		writers.Wait()
		t.Logf("FIGURE %d times another leader, writers quiet %v: %d writes, %d failed %.300v", times, quiet, written, len(failed), failed)
		if quiet && len(failed) > 0 || written == 0 {
			t.Errorf("%d of %d writes failed: %v", len(failed), written, failed)
		}
		if !quiet && len(failed) == 0 {
			t.Error("without being quiet none failed either: these writers would not notice")
		}
	}
}
