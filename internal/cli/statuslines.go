package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// statusLines shows the status of one long piece of work as lines: each phase when it begins, and how far it has come now and then.
type statusLines struct {
	w io.Writer

	mu    sync.Mutex
	phase string
	last  time.Time
}

// Status implements plan.Progress. A phase is known by its format.
func (l *statusLines) Status(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if format == l.phase && time.Since(l.last) < progressEvery {
		return
	}
	l.phase, l.last = format, time.Now()
	fmt.Fprintf(l.w, "  "+format+"\n", args...)
}
