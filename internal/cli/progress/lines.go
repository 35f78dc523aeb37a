// Package progress shows long work as lines: when a phase begins, its progress now and then, and when the work is done.
//
// Package plan/show shows the progress of a plan's steps.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Lines shows the status of one long piece of work as lines: the begin of each phase, and its progress now and then.
type Lines struct {
	w io.Writer

	mu    sync.Mutex
	phase string
	last  time.Time
}

// NewLines returns Lines that write to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Status implements plan.Progress. It identifies a phase by its format.
func (l *Lines) Status(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if format == l.phase && time.Since(l.last) < every {
		return
	}
	l.phase, l.last = format, time.Now()
	fmt.Fprintf(l.w, "  "+format+"\n", args...)
}

// None is for work that reports only begin and end.
type None struct{}

// Status does nothing.
func (None) Status(string, ...any) {}
