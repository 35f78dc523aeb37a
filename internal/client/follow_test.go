package client

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// asking is a client of a server whose answers about the events of a job are these, one after another; the last one is given from then on.
func asking(t *testing.T, answers ...http.HandlerFunc) *Client {
	t.Helper()
	var asked atomic.Int32
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/jobs/j 1/events" || r.Header.Get("Authorization") != "Bearer word" {
			t.Errorf("asked for %s as %q", r.URL, r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "text/event-stream")
		answers[min(int(asked.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(srv.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	return testkit.Value(New(Config{URL: srv.URL, Token: "word", CA: ca}))(t)
}

// tells answers with the events from one to another.
func tells(w http.ResponseWriter, from, to int) {
	for i := from; i <= to; i++ {
		fmt.Fprintf(w, ": still here\n\nid: %d\nevent: line\ndata: line %d\n\n", i, i)
	}
}

// TestFollow: a job is followed over a connection that is cut in the midst of an event, and a server that is away for a moment: no line is lost,
// and none comes twice.
func TestFollow(t *testing.T) {
	done := testkit.Value(json.Marshal(store.Job{ID: "j 1", State: store.JobEnded}))(t)
	c := asking(t,
		func(w http.ResponseWriter, _ *http.Request) {
			tells(w, 1, 2)
			fmt.Fprint(w, "id: 3\nevent: line\ndata: li")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter, _ *http.Request) {
			problem.Write(w, fail.New(fail.Unreachable, "the store is away"))
		},
		func(w http.ResponseWriter, r *http.Request) {
			if after := r.Header.Get("Last-Event-ID"); after != "2" {
				t.Errorf("it goes on after event %q", after)
			}
			tells(w, 3, 4)
		}, // and stops, as a server that ends does
		func(w http.ResponseWriter, r *http.Request) {
			if after := r.Header.Get("Last-Event-ID"); after != "4" {
				t.Errorf("it goes on after event %q", after)
			}
			tells(w, 5, 5)
			fmt.Fprintf(w, "event: news\ndata: of which it knows nothing\n\nevent: done\ndata: %s\n\n", done)
		})
	var lines []string
	j := testkit.Value(c.Follow(t.Context(), "j 1", func(line []byte) error { lines = append(lines, string(line)); return nil }))(t)
	if want := []string{"line 1", "line 2", "line 3", "line 4", "line 5"}; !slices.Equal(lines, want) || j.ID != "j 1" || j.State != store.JobEnded {
		t.Errorf("it told %q, and ended as %+v", lines, j)
	}
}

// TestFollowEnds: what can't be mended by asking again is not asked again.
func TestFollowEnds(t *testing.T) {
	nothing := func([]byte) error { return nil }
	again := func(http.ResponseWriter, *http.Request) { t.Error("it was asked again") }
	_, err := asking(t, func(w http.ResponseWriter, _ *http.Request) { problem.Write(w, fail.New(fail.NotFound, "no job j 1")) }, again).Follow(t.Context(), "j 1", nothing)
	testkit.Fails(t, err, fail.NotFound, "no job j 1")
	_, err = asking(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "event: done\ndata: {\n\n") }, again).Follow(t.Context(), "j 1", nothing)
	testkit.Fails(t, err, fail.Internal, "the outcome of the job")
	full := errors.New("the terminal is gone")
	if _, err := asking(t, func(w http.ResponseWriter, _ *http.Request) { tells(w, 1, 1) }, again).Follow(t.Context(), "j 1", func([]byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("who followed could not: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hangs := func(w http.ResponseWriter, r *http.Request) {
		tells(w, 1, 1)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	if _, err := asking(t, hangs).Follow(ctx, "j 1", func([]byte) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("who followed has enough: %v", err)
	}
}
