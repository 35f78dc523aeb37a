package bundle

import (
	"io"
	"sync"
	"time"
)

// reporter passes events to the caller's function, one at a time.
type reporter struct {
	mu sync.Mutex
	to func(Event)
}

// task is one phase of one component.
type task struct {
	r     *reporter
	began time.Time
	last  time.Time
	ev    Event
}

const eventGap = 100 * time.Millisecond // between two events of one task

func (r *reporter) begin(component, phase string, total int64) *task {
	t := &task{r: r, began: time.Now(), ev: Event{Component: component, Phase: phase, Total: total}}
	t.send()
	return t
}

// note sends a text for the user.
func (r *reporter) note(component, text string) {
	t := &task{r: r, began: time.Now(), ev: Event{Component: component, Phase: PhaseDownload, Finished: true, Note: text}}
	t.send()
}

func (t *task) send() {
	if t.r == nil || t.r.to == nil {
		return
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.last = time.Now()
	t.ev.Elapsed = t.last.Sub(t.began)
	t.r.to(t.ev)
}

func (t *task) add(n int64) {
	t.ev.Done += n
	if time.Since(t.last) >= eventGap {
		t.send()
	}
}

func (t *task) finish(cached bool) {
	t.ev.Finished, t.ev.Cached = true, cached
	if t.ev.Total > 0 {
		t.ev.Done = t.ev.Total
	}
	t.send()
}

// counting returns a reader that adds the bytes read from r to the task.
func (t *task) counting(r io.Reader) io.Reader { return &countReader{r, t} }

type countReader struct {
	r io.Reader
	t *task
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.t.add(int64(n))
	return n, err
}
