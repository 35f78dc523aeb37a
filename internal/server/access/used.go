package access

import (
	"log/slog"
	"sync"
	"time"
)

// usesEvery is how exactly it is remembered when a token or a session was used last.
const usesEvery = time.Minute

// uses remembers what was noted a moment ago, so that not each request writes to the store.
type uses struct {
	mu    sync.Mutex
	noted map[string]time.Time
}

// note notes that something was used, at most once a minute. A store that can't be written is no reason to refuse anybody.
func (u *uses) note(name string, write func(at time.Time) error, log *slog.Logger) {
	now := time.Now()
	u.mu.Lock()
	before, known := u.noted[name]
	if known && now.Sub(before).Abs() < usesEvery {
		u.mu.Unlock()
		return
	}
	if u.noted == nil || len(u.noted) >= most {
		u.noted = map[string]time.Time{} // it only saves writes
	}
	u.noted[name] = now
	u.mu.Unlock()
	if err := write(now); err != nil {
		log.Warn("the last use could not be noted", "of", name, "error", err.Error())
	}
}
