// Package queue bounds the number of holders at a time, for each key by itself, and the number that wait to be one. It keeps the requests of one
// cluster from delaying those of another. It knows nothing about clusters: keys are texts.
package queue

import (
	"context"
	"errors"
	"sync"
)

// ErrFull says that as many wait for a key as may.
var ErrFull = errors.New("too many wait already")

// Queues has a queue for each key that is in use.
type Queues struct {
	places, waiting int

	mu sync.Mutex
	of map[string]*queue
}

// queue is the queue of one key.
type queue struct {
	places chan struct{}
	users  int // with a place, or waiting for one
}

// New returns queues with this many places for each key, for which this many callers may wait.
func New(places, waiting int) *Queues {
	return &Queues{places: places, waiting: waiting, of: map[string]*queue{}}
}

// Take waits for a place, which done frees again. It fails with ErrFull if too many wait already, and with ctx's error if ctx ends first.
func (q *Queues) Take(ctx context.Context, key string) (done func(), err error) {
	own := q.enter(key)
	if own == nil {
		return nil, ErrFull
	}
	select {
	case own.places <- struct{}{}:
		return func() {
			<-own.places
			q.leave(key)
		}, nil
	case <-ctx.Done():
		q.leave(key)
		return nil, ctx.Err()
	}
}

// enter adds a user to a key's queue, which is nil if it is full.
func (q *Queues) enter(key string) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.of[key]
	if own == nil {
		own = &queue{places: make(chan struct{}, q.places)}
		q.of[key] = own
	}
	if own.users == q.places+q.waiting {
		return nil
	}
	own.users++
	return own
}

// leave removes a user from a key's queue, and an empty queue.
func (q *Queues) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.of[key]
	if own.users--; own.users == 0 {
		delete(q.of, key)
	}
}

// Users returns the number of callers that have a place of a key or wait for one.
func (q *Queues) Users(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if own := q.of[key]; own != nil {
		return own.users
	}
	return 0
}
