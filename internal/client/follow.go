package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// Times of followers.
const (
	away    = 2 * time.Minute  // how long a server may be gone: another one takes the job over meanwhile
	silence = 45 * time.Second // after which a connection is taken for dead: a server shows every 15 s that it lives
)

// Follow calls each with every line that a job tells, from the first one, until the job has ended, and returns it then. Where the server goes
// away it is asked again, and continues where it was.
func (c *Client) Follow(ctx context.Context, id string, each func(line []byte) error) (*store.Job, error) {
	f := &following{c: c, id: id, each: each}
	last := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		before := f.seen
		j, err := f.once(ctx)
		var mine callersError
		switch {
		case j != nil:
			return j, nil
		case errors.As(err, &mine):
			return nil, mine.error
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !fail.Waitable(err):
			return nil, err
		case f.seen != before || err == nil:
			last = time.Now()
		case time.Since(last) > away:
			return nil, fail.Wrap(fail.Unreachable, err, "the server went away while job %s ran", id).Do("the job continues on any running server; naupegos history shows it")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// callersError is what each returned.
type callersError struct{ error }

// following is one who follows a job.
type following struct {
	c    *Client
	id   string
	seen string // the last event's ID
	each func([]byte) error
}

// once follows for as long as one connection lasts. The job is returned once it has ended.
func (f *following) once(ctx context.Context) (*store.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.seen != "" {
		header.Set("Last-Event-ID", f.seen)
	}
	res, err := f.c.send(ctx, http.MethodGet, "/api/v1/jobs/"+url.PathEscape(f.id)+"/events", nil, nil, header)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	dead := time.AfterFunc(silence, cancel)
	defer dead.Stop()
	in := bufio.NewReader(res.Body)
	var e event
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil, nil // the server stops: another connection continues
		}
		if err != nil {
			return nil, fail.Wrap(fail.Unreachable, err, "follow the job").At(f.c.base.Host)
		}
		dead.Reset(silence)
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			e.field(line)
			continue
		}
		j, err := f.take(e)
		if err != nil || j != nil {
			return j, err
		}
		e = event{}
	}
}

// take takes one event.
func (f *following) take(e event) (*store.Job, error) {
	switch e.name {
	case "line":
		if err := f.each([]byte(e.data)); err != nil {
			return nil, callersError{err}
		}
		f.seen = e.id
	case "done":
		var j store.Job
		if err := json.Unmarshal([]byte(e.data), &j); err != nil {
			return nil, callersError{fail.Wrap(fail.Internal, err, "read the outcome of the job")}
		}
		return &j, nil
	}
	return nil, nil
}

// event is one Server-Sent Event.
type event struct{ id, name, data string }

// field takes a line of an event.
func (e *event) field(line string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "id":
		e.id = value
	case "event":
		e.name = value
	case "data":
		e.data += value
	}
}
