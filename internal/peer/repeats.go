package peer

import (
	"sync"
	"time"
)

// Window is the time within which repeats are counted as one.
const Window = time.Minute

// Repeats counts equal messages by key, one window at a time. It may be used by several goroutines.
type Repeats[V any] struct {
	mu    sync.Mutex
	most  int
	began time.Time
	byKey map[string]*run[V]
	now   func() time.Time
}

type run[V any] struct {
	passed, held int
	last         V
}

// Held is a key's messages of one window that Count held back. The empty key stands for all keys past the limit of NewRepeats.
type Held[V any] struct {
	Key   string
	Times int
	Last  V // the latest of them
}

// NewRepeats distinguishes at most most keys within a window. Messages of further keys are held back and counted together.
func NewRepeats[V any](most int, now func() time.Time) *Repeats[V] {
	return &Repeats[V]{most: most, byKey: map[string]*run[V]{}, now: now}
}

// Count counts a message and reports whether it is one of the first burst messages of its key, which pass. If the previous window has ended, Count
// also returns its held messages.
func (q *Repeats[V]) Count(key string, burst int, message V) (pass bool, ended []Held[V]) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	ended = q.end(now)
	if len(q.byKey) == 0 {
		q.began = now
	}
	r := q.byKey[key]
	if r == nil && len(q.byKey) >= q.most {
		key, burst = "", 0
		r = q.byKey[key]
	}
	if r == nil {
		r = &run[V]{}
		q.byKey[key] = r
	}
	if r.passed < burst {
		r.passed++
		return true, ended
	}
	r.held, r.last = r.held+1, message
	return false, ended
}

// Ended returns the held messages of a window that has ended, and starts the next window.
func (q *Repeats[V]) Ended() []Held[V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.end(q.now())
}

// End returns the held messages of the current window without waiting for its end, and starts the next window.
func (q *Repeats[V]) End() []Held[V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.take()
}

// Len returns the number of keys in the current window.
func (q *Repeats[V]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.byKey)
}

func (q *Repeats[V]) end(now time.Time) []Held[V] {
	if age := now.Sub(q.began); len(q.byKey) == 0 || age >= 0 && age < Window {
		return nil
	}
	return q.take()
}

func (q *Repeats[V]) take() (all []Held[V]) {
	for key, r := range q.byKey {
		if r.held > 0 {
			all = append(all, Held[V]{key, r.held, r.last})
		}
	}
	q.byKey = map[string]*run[V]{}
	return all
}
