package peer

import (
	"sync"
	"time"
)

// First remembers when each key was first seen. It may be used by several goroutines.
type First struct {
	mu  sync.Mutex
	all *table[time.Time]
}

// NewFirst remembers the most recently seen keys, at most most.
func NewFirst(most int) *First { return &First{all: newTable[time.Time](most)} }

// Seen records that a key is seen now, and returns when it was first seen.
func (f *First) Seen(key string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, known := f.all.get(key)
	if !known {
		first = now
		f.all.put(key, first)
	}
	return first
}
