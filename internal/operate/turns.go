package operate

import (
	"context"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
)

// Bounds of the sessions that read one cluster for requests.
const (
	readAtOnce  = 4
	readWaiting = 32
)

// Turns lets a few sessions at a time read a cluster. Each answer of a cluster is bounded, but a tenant could have a hostile API server asked by very
// many requests, and fill the memory of the server that serves other tenants, too.
type Turns struct {
	mu sync.Mutex
	of map[string]*turn
}

// turn holds a cluster's places.
type turn struct {
	places chan struct{}
	users  int // sessions that have a place or wait for one
}

// NewTurns returns free places for all clusters.
func NewTurns() *Turns { return &Turns{of: map[string]*turn{}} }

// take waits for a place of a cluster: fail.NotReady if too many sessions wait already, or if ctx ends first.
func (t *Turns) take(ctx context.Context, cluster string) (done func(), err error) {
	t.mu.Lock()
	own := t.of[cluster]
	if own == nil {
		own = &turn{places: make(chan struct{}, readAtOnce)}
		t.of[cluster] = own
	}
	if own.users >= readAtOnce+readWaiting {
		t.mu.Unlock()
		return nil, crowded(cluster)
	}
	own.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.of, cluster)
		}
	}
	select {
	case own.places <- struct{}{}:
		return func() { <-own.places; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, crowded(cluster)
	}
}

func crowded(cluster string) error {
	return fail.New(fail.NotReady, "%d requests read the cluster already", readAtOnce).At(cluster).Do("try again; if this lasts, the cluster's API answers slowly: naupegos status %s", cluster)
}
