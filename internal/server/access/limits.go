package access

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds on how often somebody may ask.
const (
	perToken, burstToken = 50, 200 // requests a second
	burstWrong           = 10      // wrong tokens from one address, and then
	perWrong             = 0.2     // so many a second
	most                 = 10_000  // addresses and tokens that are remembered
)

// limits are the bounds of tokens and of addresses that have shown wrong ones.
type limits struct {
	mu     sync.Mutex
	tokens map[string]*rate.Limiter
	wrong  map[string]*rate.Limiter
}

func newLimits() *limits {
	return &limits{tokens: map[string]*rate.Limiter{}, wrong: map[string]*rate.Limiter{}}
}

// mayAsk counts a request of a token.
func (l *limits) mayAsk(token string) bool {
	return l.of(l.tokens, token, perToken, burstToken).Allow()
}

// mayTry reports whether an address may show another token.
func (l *limits) mayTry(from string) bool {
	l.mu.Lock()
	w := l.wrong[from]
	l.mu.Unlock()
	return w == nil || w.Tokens() >= 1
}

// failed counts a wrong token from an address.
func (l *limits) failed(from string) { l.of(l.wrong, from, perWrong, burstWrong).Allow() }

// of returns the limiter of a name, made first where there is none. Those that are full again are forgotten where there are many.
func (l *limits) of(all map[string]*rate.Limiter, name string, perSecond rate.Limit, burst int) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := all[name]; found != nil {
		return found
	}
	if len(all) >= most {
		now := time.Now()
		for n, one := range all {
			if one.TokensAt(now) >= float64(burst) || len(all) >= 2*most {
				delete(all, n)
			}
		}
	}
	all[name] = rate.NewLimiter(perSecond, burst)
	return all[name]
}
