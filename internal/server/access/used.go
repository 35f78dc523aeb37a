package access

import (
	"log/slog"
	"sync"
	"time"
)

// usesEvery is the precision of the last use of tokens and sessions.
const usesEvery = time.Minute

// uses limits how often the last use of a token or session is written to the store.
type uses struct {
	mu    sync.Mutex
	noted map[string]time.Time
}

// note records the last use, at most once a minute. If that fails, the request continues.
func (u *uses) note(name string, write func(at time.Time) error, log *slog.Logger) {
	now := time.Now()
	u.mu.Lock()
	before, known := u.noted[name]
	if known && now.Sub(before).Abs() < usesEvery {
		u.mu.Unlock()
		return
	}
	if u.noted == nil || len(u.noted) >= most {
		u.noted = map[string]time.Time{} // losing it costs a few writes
	}
	u.noted[name] = now
	u.mu.Unlock()
	if err := write(now); err != nil {
		log.Warn("the last use can't be recorded", "of", name, "error", err.Error())
	}
}
