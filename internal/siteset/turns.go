package siteset

import (
	"context"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
)

// mostWaiting limits the documents of one cluster that wait for their turn: each may be as large as a request.
const mostWaiting = 8

// turns lets one process at a time render for a cluster, so that the documents of one tenant do not keep those of the others waiting.
type turns struct {
	all chan struct{} // places of all clusters together

	mu sync.Mutex
	of map[string]*turn
}

// turn is a cluster's place.
type turn struct {
	place chan struct{}
	users int // who hold the place or wait for it
}

func newTurns() *turns { return &turns{all: make(chan struct{}, apartAtOnce), of: map[string]*turn{}} }

// take waits for the cluster's turn, and then for a free process. fail.NotReady if too many wait already.
func (t *turns) take(ctx context.Context, cluster string) (done func(), err error) {
	t.mu.Lock()
	own := t.of[cluster]
	if own == nil {
		own = &turn{place: make(chan struct{}, 1)}
		t.of[cluster] = own
	}
	if own.users > mostWaiting {
		t.mu.Unlock()
		return nil, fail.New(fail.NotReady, "%d documents of cluster %s wait for their manifests and charts to be rendered", mostWaiting, cluster).Do("ask again when they are planned")
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
	case own.place <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, fail.Wrap(fail.Interrupted, ctx.Err(), "render the manifests and charts")
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-own.place
		leave()
		return nil, fail.Wrap(fail.Interrupted, ctx.Err(), "render the manifests and charts")
	}
	return func() {
		<-t.all
		<-own.place
		leave()
	}, nil
}
