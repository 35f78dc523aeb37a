// Package logs reads the logs of the machine it runs on: the journal, through journalctl, and the files of containers below /var/log/pods.
//
// It sends lines in the order of time and knows nothing of clusters.
package logs

import (
	"context"
	"encoding/json"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
)

// Reader reads the logs of one machine.
type Reader struct {
	Dir        string // directory of containers' logs; empty: /var/log/pods
	Journalctl string // program; empty: journalctl
}

// longest is the maximum length of a line in bytes; the rest of a longer line is dropped.
const longest = 64 << 10

// every is the interval at which files are checked for more lines, and directories for more files.
const every = 300 * time.Millisecond

// Send writes the requested lines to w, one JSON object each. With Follow, it writes a Present line after the existing lines and continues until ctx
// ends or w fails.
func (r Reader) Send(ctx context.Context, req logs.Request, w io.Writer) error {
	grep, err := regexp.Compile(req.Grep)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "regular expression %q", req.Grep)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enc := json.NewEncoder(w)
	send := func(l logs.Line) error { return enc.Encode(l) }
	wanted := func(l logs.Line) bool { return !l.Time.Before(req.Since) && grep.MatchString(l.Text) }

	run := &reading{Reader: r, Request: req, wanted: wanted}
	keep := &tail{most: req.Tail, send: send}
	if _, err = logs.Merge(ctx, run.present(ctx), keep.add); err != nil {
		cancel()
	}
	run.Wait()
	if err == nil {
		err = run.failure()
	}
	if err == nil {
		err = keep.flush()
	}
	if err != nil || !req.Follow {
		return ended(ctx, err)
	}
	if err := send(logs.Line{Present: true}); err != nil {
		return err
	}
	err = logs.Follow(ctx, run.coming(ctx), send)
	cancel()
	run.Wait()
	if problem := run.failure(); problem != nil {
		return problem
	}
	return err
}

// ended turns the error of a reader that went away into fail.Interrupted.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && fail.KindOf(err) == fail.KindOf(ctx.Err()) {
		return fail.Wrap(fail.Interrupted, err, "read the logs")
	}
	return err
}

// reading is the state of one Send.
type reading struct {
	Reader
	logs.Request
	wanted func(logs.Line) bool

	sync.WaitGroup
	mu     sync.Mutex
	err    error
	cursor string           // of the last journal entry that was read
	from   time.Time        // when reading began
	read   map[string]int64 // bytes read, by file
}

func (r *reading) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *reading) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// present starts reading the existing lines: one source for the journal, and one for each file.
func (r *reading) present(ctx context.Context) (sources []<-chan logs.Line) {
	r.from, r.read = time.Now(), map[string]int64{}
	start := func(read func(emit func(logs.Line) error) error) {
		c := make(chan logs.Line, 16)
		sources = append(sources, c)
		r.Go(func() {
			defer close(c)
			keep := &tail{most: r.Tail, send: passTo(ctx, c)}
			err := read(keep.add)
			if err == nil {
				err = keep.flush()
			}
			if err != nil && ctx.Err() == nil {
				r.fail(err)
			}
		})
	}
	if r.Journal() {
		start(func(emit func(logs.Line) error) error { return r.journal(ctx, emit) })
	}
	if r.Request.Pods() {
		files, err := r.files()
		if err != nil {
			r.fail(err)
		}
		for _, f := range files {
			start(func(emit func(logs.Line) error) error {
				n, err := r.file(ctx, f, 0, emit)
				r.mu.Lock()
				defer r.mu.Unlock()
				r.read[f.path] = n
				return err
			})
		}
	}
	return sources
}

// coming starts reading lines that are written from now on.
func (r *reading) coming(ctx context.Context) <-chan logs.Line {
	c := make(chan logs.Line, 64)
	emit := passTo(ctx, c)
	var all sync.WaitGroup
	start := func(read func(context.Context, func(logs.Line) error) error) {
		all.Go(func() {
			if err := read(ctx, emit); err != nil && ctx.Err() == nil {
				r.fail(err)
			}
		})
	}
	if r.Journal() {
		start(r.followJournal)
	}
	if r.Request.Pods() {
		start(r.followFiles)
	}
	r.Go(func() {
		all.Wait()
		close(c)
	})
	return c
}

func passTo(ctx context.Context, c chan<- logs.Line) func(logs.Line) error {
	return func(l logs.Line) error {
		select {
		case c <- l:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tail passes on only the last lines, when it is flushed; with most 0 it passes on every line at once.
type tail struct {
	most int
	send func(logs.Line) error
	last []logs.Line // a ring
	next int
}

func (t *tail) add(l logs.Line) error {
	switch {
	case t.most <= 0:
		return t.send(l)
	case len(t.last) < t.most:
		t.last = append(t.last, l)
	default:
		t.last[t.next] = l
		t.next = (t.next + 1) % t.most
	}
	return nil
}

func (t *tail) flush() error {
	for i := range t.last {
		if err := t.send(t.last[(t.next+i)%len(t.last)]); err != nil {
			return err
		}
	}
	return nil
}
