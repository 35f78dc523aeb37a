package peer

import "sync"

// Recent remembers the values of the keys that were set or read most recently. It may be used by several goroutines.
type Recent[V any] struct {
	mu  sync.Mutex
	all *table[V]
}

// NewRecent remembers at most most values.
func NewRecent[V any](most int) *Recent[V] { return &Recent[V]{all: newTable[V](most)} }

// Set remembers the value of a key.
func (r *Recent[V]) Set(key string, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.put(key, v)
}

// Get returns the value of a key, if it is still remembered.
func (r *Recent[V]) Get(key string) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.get(key)
}
