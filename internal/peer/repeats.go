package peer

import (
	"sync"
	"time"
)

// window is the time in which repeats are counted and not told.
const window = time.Minute

// Repeats tells the first equal messages of a minute at once and the others as one number. It may be used by several goroutines.
type Repeats struct {
	first int // so many are told
	mu    sync.Mutex
	all   *table[*run]
	lost  int // messages of keys that were forgotten before their minute was over
	now   func() time.Time
}

// run is one key's minute.
type run struct {
	began      time.Time
	told, more int
}

// NewRepeats tells the first equal messages of a minute, and remembers the last most keys.
func NewRepeats(first, most int) *Repeats {
	return &Repeats{first: first, all: newTable[*run](most), now: time.Now}
}

// Tell reports whether a message of a key is to be told now, and how many of the same key were not told since the last one that was.
func (r *Repeats) Tell(key string) (now bool, untold int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.now()
	if seen, ok := r.all.get(key); ok {
		if at.Sub(seen.began) < window {
			if seen.told < r.first {
				seen.told++
				return true, 0
			}
			seen.more++
			return false, 0
		}
		untold = seen.more
	}
	if gone := r.all.put(key, &run{began: at, told: 1}); gone != nil {
		r.lost += (*gone).more
	}
	return true, untold
}

// Ended removes the minutes that are over, and returns how many messages of each key were not told; the empty key stands for keys that were
// forgotten.
func (r *Repeats) Ended() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, out := r.now(), map[string]int{}
	if r.lost > 0 {
		out[""], r.lost = r.lost, 0
	}
	for e := r.all.order.Back(); e != nil; {
		next := e.Prev()
		if old := e.Value.(*entry[*run]); at.Sub(old.value.began) >= window {
			if old.value.more > 0 {
				out[old.key] = old.value.more
			}
			r.all.remove(old.key)
		}
		e = next
	}
	return out
}
