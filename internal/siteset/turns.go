package siteset

import (
	"context"
	"errors"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/queue"
)

// mostWaiting limits the documents of one cluster that wait for their turn: each may be as large as a request.
const mostWaiting = 8

// turns lets one process at a time render for a cluster, so that the documents of one tenant do not delay those of the others.
type turns struct {
	all   chan struct{} // places of all clusters together
	ofOne *queue.Queues
}

func newTurns() *turns {
	return &turns{all: make(chan struct{}, apartAtOnce), ofOne: queue.New(1, mostWaiting)}
}

// take waits for the cluster's turn, and then for a free process. It fails with fail.NotReady if too many wait already.
func (t *turns) take(ctx context.Context, cluster string) (done func(), err error) {
	leave, err := t.ofOne.Take(ctx, cluster)
	if errors.Is(err, queue.ErrFull) {
		return nil, fail.New(fail.NotReady, "%d documents of cluster %s wait for their manifests and charts to be rendered", mostWaiting, cluster).Do("ask again when they are planned")
	}
	if err != nil {
		return nil, fail.Wrap(fail.Interrupted, err, "render the manifests and charts")
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, fail.Wrap(fail.Interrupted, ctx.Err(), "render the manifests and charts")
	}
	return func() {
		<-t.all
		leave()
	}, nil
}
