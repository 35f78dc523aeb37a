package cache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Cache holds the known resources of one kind: the result of the last list, updated by later creations and deletions. It is safe for concurrent
// use. Items are found in the order of the last list, followed by those kept since, in the order of keeping.
type Cache[T any] struct {
	id   func(T) string
	list func(ctx context.Context) ([]T, error)

	mu     sync.Mutex
	items  []T
	put    map[string]int // by ID: tick of a creation or change, which an older list must not undo
	gone   map[string]int // by ID: tick of a deletion
	tick   int
	loaded bool          // a list has completed, and nothing since its start made it doubtful
	doubts int           // number of calls to Invalidate and Forget
	begun  int           // number of started lists
	shown  int           // number of the most recently started list that has succeeded
	flight chan struct{} // closed when the running list completes
	looked time.Time     // when the last list, or probe, ended
	listed time.Time     // when the last list ended
	took   time.Duration // duration of the last list
	err    error         // of the last list
}

// New returns a cache of the items of list, identified by id. It makes no call.
func New[T any](id func(T) string, list func(context.Context) ([]T, error)) *Cache[T] {
	return &Cache[T]{id: id, list: list, put: map[string]int{}, gone: map[string]int{}}
}

// All returns the known items.
func (s *Cache[T]) All() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.items)
}

// Find returns the first known item that matches.
func (s *Cache[T]) Find(fits func(T) bool) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.items, fits); i >= 0 {
		return s.items[i], true
	}
	var none T
	return none, false
}

// Filter returns the known items that match.
func (s *Cache[T]) Filter(fits func(T) bool) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []T
	for i := range s.items {
		if fits(s.items[i]) {
			out = append(out, s.items[i])
		}
	}
	return out
}

// Keep stores items that were just created, changed or read.
func (s *Cache[T]) Keep(items ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick++
	for _, item := range items {
		id := s.id(item)
		s.put[id] = s.tick
		delete(s.gone, id)
		if i := s.index(id); i >= 0 {
			s.items[i] = item
		} else {
			s.items = append(s.items, item)
		}
	}
}

// Change updates a known item. Unlike Keep, it gives way to a list that completes later, even to one that started earlier.
func (s *Cache[T]) Change(id string, with func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(id); i >= 0 {
		with(&s.items[i])
	}
}

// Drop removes a deleted item.
func (s *Cache[T]) Drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick++
	s.gone[id] = s.tick
	delete(s.put, id)
	if i := s.index(id); i >= 0 {
		s.items = slices.Delete(s.items, i, i+1)
	}
}

func (s *Cache[T]) index(id string) int {
	return slices.IndexFunc(s.items, func(t T) bool { return s.id(t) == id })
}

// Invalidate makes the next Fresh list again, because the outcome of a call is unknown.
func (s *Cache[T]) Invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = false
	s.doubts++
}

// Forget drops all items; the cache stays empty until the next list or Keep.
func (s *Cache[T]) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items, s.loaded = nil, false
	s.doubts++
	clear(s.put)
	clear(s.gone)
}

// Fresh lists again unless the known items are certain: a list has succeeded, and no Invalidate or Forget came after it began.
func (s *Cache[T]) Fresh(ctx context.Context) error {
	s.mu.Lock()
	loaded := s.loaded
	s.mu.Unlock()
	if loaded {
		return nil
	}
	return s.Load(ctx)
}

// Load lists now. Items that were kept or dropped after the list began stay so.
func (s *Cache[T]) Load(ctx context.Context) error {
	s.mu.Lock()
	s.begun++
	start, doubts, mine := s.tick, s.doubts, s.begun
	s.mu.Unlock()
	began := time.Now()
	found, err := s.list(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.took, s.err = time.Now(), time.Since(began), err
	s.looked = s.listed
	if err != nil || mine < s.shown { // overtaken by a list that started later
		return err
	}
	s.shown = mine
	s.loaded = s.loaded || s.doubts == doubts // a doubt that arose meanwhile stays
	var items []T
	listed := map[string]bool{}
	for _, item := range found {
		id := s.id(item)
		listed[id] = true
		switch {
		case s.gone[id] > start: // deleted while the list ran
		case s.put[id] > start:
			items = append(items, s.items[s.index(id)])
		default:
			items = append(items, item)
		}
	}
	for _, item := range s.items {
		if id := s.id(item); !listed[id] && s.put[id] > start {
			items = append(items, item)
		}
	}
	s.items = items
	return nil
}

// Probe is a call that costs the cloud less than a list. news reports whether a list would show something new since the last look; all reports
// whether it would even show everything that is waited for.
type Probe func(ctx context.Context, since time.Time) (news, all bool, err error)

// Next waits for the next list, which starts at least pause after the last one; with a probe, for the next probe and the list that it may
// cause. Concurrent callers share one list.
func (s *Cache[T]) Next(ctx context.Context, pause time.Duration, check Probe) error {
	for {
		s.mu.Lock()
		if s.flight == nil {
			flight := make(chan struct{})
			s.flight = flight
			if check == nil {
				pause = max(pause, s.took)
			}
			wait := time.Until(s.looked.Add(pause))
			s.mu.Unlock()
			err := cloud.Sleep(ctx, wait)
			if err == nil {
				err = s.look(ctx, pause, check)
			}
			s.mu.Lock()
			s.flight = nil
			s.err = err
			s.mu.Unlock()
			close(flight)
			return err
		}
		flight := s.flight
		s.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.mu.Lock()
		err := s.err
		s.mu.Unlock()
		if err == nil || !cloud.Interrupted(err) { // otherwise the caller that ran the list was stopped, not this one
			return err
		}
	}
}

// Bounds of the age of the last list while probes replace lists, in multiples of the pause or of the duration of a list, whichever is longer. If
// a probe shows news, but not everything that is waited for, the next list waits until restAfterList. Beyond glancesAtMost the next look is a
// list without a probe.
const (
	restAfterList = 3
	glancesAtMost = 30
)

// look lists again, unless a probe shows that nothing is new, or not enough to list already.
func (s *Cache[T]) look(ctx context.Context, pause time.Duration, check Probe) error {
	s.mu.Lock()
	age, since, pause := time.Since(s.listed), s.looked, max(pause, s.took)
	s.mu.Unlock()
	if check == nil || age > glancesAtMost*pause {
		return s.Load(ctx)
	}
	news, all, err := check(ctx, since)
	if err == nil && news && (all || age > restAfterList*pause) {
		return s.Load(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = time.Now()
	return err
}
