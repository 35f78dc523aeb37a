package work

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// lines writes a job's output to the store, as lines of JSON. It writes in batches, because a run produces many.
type lines struct {
	j       *job
	mu      sync.Mutex
	pending []string
	partial []byte
	stop    chan struct{}
	done    chan struct{}
}

func newLines(j *job) *lines {
	l := &lines{j: j, stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// said is a line of text, about work before or beside a run.
type said struct {
	Event string    `json:"event"` // "say"
	Time  time.Time `json:"time"`
	Text  string    `json:"text"`
}

// Write adds text for waiting clients, one entry a line.
func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(append(l.partial, text...)) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			l.partial = bytes.Clone(line)
			return len(text), nil
		}
		raw, err := json.Marshal(said{"say", time.Now(), string(bytes.TrimRight(line, "\r\n"))})
		if err != nil {
			return 0, err
		}
		l.pending = append(l.pending, string(raw))
	}
	l.partial = nil
	return len(text), nil
}

// json returns a writer for lines that are JSON already, one a call.
func (l *lines) json() io.Writer { return jsonOf{l} }

type jsonOf struct{ l *lines }

// Write implements io.Writer.
func (o jsonOf) Write(line []byte) (int, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	o.l.pending = append(o.l.pending, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// run writes pending lines until close.
func (l *lines) run() {
	defer close(l.done)
	tick := time.NewTicker(flush)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.write()
		case <-l.stop:
			l.write()
			return
		}
	}
}

// write writes the pending lines. If that fails, it keeps them for the next time, up to a limit.
func (l *lines) write() {
	l.mu.Lock()
	batch := l.pending
	l.pending = nil
	l.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	if err := l.j.b.c.Store.SayJob(ctx, l.j.Job, batch); err != nil {
		l.j.b.c.Log.Warn("the output of a job was not recorded", "job", l.j.ID, "error", err.Error())
		l.mu.Lock()
		if len(batch)+len(l.pending) < 10_000 {
			l.pending = append(batch, l.pending...)
		}
		l.mu.Unlock()
		return
	}
	l.j.b.tellChanged()
}

// close writes the remaining lines.
func (l *lines) close() {
	close(l.stop)
	<-l.done
}
