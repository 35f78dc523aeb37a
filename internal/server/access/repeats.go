package access

import (
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/store"
)

// Bounds of what the audit has of refusals that repeat.
const (
	repeatsEvery = time.Minute
	burstKnown   = 20   // entries a minute of somebody who is known; of an address that nobody is known at, one
	mostSources  = 1000 // that are told apart in a minute
)

// repeats counts refusals by their source, a minute at a time.
type repeats struct {
	mu    sync.Mutex
	began time.Time
	by    map[string]*repeated
	now   func() time.Time
}

// repeated are the refusals of one source.
type repeated struct {
	written, left int
	last          store.AuditEntry
}

func newRepeats() *repeats { return &repeats{by: map[string]*repeated{}, now: time.Now} }

// count counts a refusal, and reports whether it gets an entry of its own. It returns summaries of a minute that is over.
func (q *repeats) count(source string, burst int, e store.AuditEntry) (write bool, over []store.AuditEntry) {
	over = q.due(q.now())
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.by) == 0 {
		q.began = q.now()
	}
	r := q.by[source]
	if r == nil && len(q.by) >= mostSources {
		source, burst, e.From, e.Who = "", 0, "other addresses", "nobody"
		r = q.by[source]
	}
	if r == nil {
		r = &repeated{}
		q.by[source] = r
	}
	if r.written < burst {
		r.written++
		return true, over
	}
	r.left, r.last = r.left+1, e
	return false, over
}

// due returns summaries once a minute is over at a time, and begins another one.
func (q *repeats) due(at time.Time) (all []store.AuditEntry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if age := at.Sub(q.began); len(q.by) == 0 || age >= 0 && age < repeatsEvery {
		return nil
	}
	for _, r := range q.by {
		if r.left == 0 {
			continue
		}
		e := r.last
		e.At, e.Count, e.Action = q.now(), r.left, "more within a minute, the last one "+e.Action
		all = append(all, e)
	}
	q.by = map[string]*repeated{}
	return all
}
