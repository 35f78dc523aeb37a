package operate

import (
	"context"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/queue"
)

// Bounds of the sessions that read one cluster for requests.
const (
	readAtOnce  = 4
	readWaiting = 32
)

// NewTurns returns the value of Options.Turns for a server. Each answer of a cluster is bounded, but a tenant could have a hostile API server asked
// by very many requests, and fill the memory of the server that serves other tenants, too.
func NewTurns() *queue.Queues { return queue.New(readAtOnce, readWaiting) }

// turn waits until the session may read the cluster: fail.NotReady if too many sessions wait already, or if ctx ends first.
func (o *Options) turn(ctx context.Context, cluster string) (done func(), err error) {
	if done, err = o.Turns.Take(ctx, cluster); err != nil {
		return nil, fail.New(fail.NotReady, "%d requests read the cluster already", readAtOnce).At(cluster).Do("try again; if this lasts, the cluster's API answers slowly: naupegos status %s", cluster) // cause withheld: the text says both
	}
	return done, nil
}
