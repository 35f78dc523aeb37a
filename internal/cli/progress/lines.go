// Package progress shows long pieces of work as lines: what is begun, how far it has come now and then, what is done.
//
// What a plan's steps are at is shown by plan/show.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Lines shows the status of one long piece of work as lines: each phase when it begins, and how far it has come now and then.
type Lines struct {
	w io.Writer

	mu    sync.Mutex
	phase string
	last  time.Time
}

// NewLines returns one that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Status implements plan.Progress. A phase is known by its format.
func (l *Lines) Status(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if format == l.phase && time.Since(l.last) < every {
		return
	}
	l.phase, l.last = format, time.Now()
	fmt.Fprintf(l.w, "  "+format+"\n", args...)
}

// None is for work of which begin and end are reported.
type None struct{}

// Status drops what is going on.
func (None) Status(string, ...any) {}
