package peer

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates limits the rate of requests by key. It may be used by several goroutines.
type Rates struct {
	mu        sync.Mutex
	all       *table[*rate.Limiter]
	perSecond rate.Limit
	burst     int
}

// NewRates allows each key burst requests at once, and perSecond requests a second after that. It remembers the most recently used keys, at most most.
func NewRates(perSecond float64, burst, most int) *Rates {
	return &Rates{all: newTable[*rate.Limiter](most), perSecond: rate.Limit(perSecond), burst: burst}
}

// Allow counts a request of a key, and reports whether the key may make it.
func (r *Rates) Allow(key string) bool { return r.of(key).Allow() }

// Would reports whether Allow would allow a request of the key, without counting one.
func (r *Rates) Would(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.all.get(key)
	return !ok || l.Tokens() >= 1
}

// Len returns the number of remembered keys.
func (r *Rates) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.len()
}

func (r *Rates) of(key string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.all.get(key)
	if !ok {
		l = rate.NewLimiter(r.perSecond, r.burst)
		r.all.put(key, l)
	}
	return l
}

// Until returns the time until the key's next request is allowed.
func (r *Rates) Until(key string) time.Duration {
	l := r.of(key)
	if missing := 1 - l.Tokens(); missing > 0 && r.perSecond > 0 {
		return time.Duration(missing / float64(r.perSecond) * float64(time.Second))
	}
	return 0
}
