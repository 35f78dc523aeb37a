package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
)

// says returns a machine that sends lines with these times in seconds; -1 sends the Present line.
func says(name string, seconds ...int) asked {
	return asked{name, func(_ context.Context, _ string, w io.Writer) error { return lines(w, seconds...) }}
}

func lines(w io.Writer, seconds ...int) error {
	enc := json.NewEncoder(w)
	for _, s := range seconds {
		l := logs.Line{Time: time.Unix(int64(s), 0), Unit: "kubelet.service", Text: fmt.Sprintf("line\x1b[2J %d", s)}
		if s < 0 {
			l = logs.Line{Present: true}
		}
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// buffer allows a write and a read at the same time.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func verbTo(out, errOut io.Writer) *logsVerb {
	return &logsVerb{Host: Host{Out: out, Err: errOut, Color: func(io.Writer) bool { return false }}, output: "text"}
}

// TestMerged: the lines of all machines are printed in the order of time, a failing machine is named and does not stop the others, and the output
// has no control sequences.
func TestMerged(t *testing.T) {
	var out, errOut buffer
	v := verbTo(&out, &errOut)
	r := v.show(t.Context(), []asked{says("cp-1", 1, 4), says("worker-1", 2, 3), {"cp-2", func(context.Context, string, io.Writer) error {
		return fail.New(fail.Unreachable, "connect").At("cp-2")
	}}})
	want := `cp-1     1970-01-01T00:00:01.000Z kubelet: line 1
worker-1 1970-01-01T00:00:02.000Z kubelet: line 2
worker-1 1970-01-01T00:00:03.000Z kubelet: line 3
cp-1     1970-01-01T00:00:04.000Z kubelet: line 4
`
	if out.String() != want || strings.Count(errOut.String(), "cp-2") != 1 {
		t.Errorf("got\n%swant\n%serrors: %s", out.String(), want, errOut.String())
	}
	if err := r.end(t.Context(), false); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("it ended with %v", err)
	}
}

func TestJSON(t *testing.T) {
	var out buffer
	v := verbTo(&out, io.Discard)
	v.output = "json"
	if r := v.show(t.Context(), []asked{says("cp-1", 1)}); r.end(t.Context(), false) != nil {
		t.Fatal(r)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got["schemaVersion"] != 1.0 || got["machine"] != "cp-1" || got["unit"] != "kubelet.service" ||
		got["text"] != "line\x1b[2J 1" || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("got %s, %v", out.String(), err)
	}
}

func TestColours(t *testing.T) {
	var out buffer
	v := verbTo(&out, io.Discard)
	v.Color = func(io.Writer) bool { return true }
	v.show(t.Context(), []asked{says("cp-1", 1), says("cp-2", 2)})
	if got := out.String(); !strings.Contains(got, "\x1b[36mcp-1\x1b[0m 1970") || !strings.Contains(got, "\x1b[33mcp-2\x1b[0m 1970") {
		t.Errorf("got %q", got)
	}
}

// TestFollow: a lost connection is made again and continues after the last line; an interrupt ends the verb without an error.
func TestFollow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errOut buffer
	var asks []logs.Request
	v := verbTo(&out, &errOut)
	v.Follow, v.Tail = true, 2
	times := 0
	m := asked{"cp-1", func(ctx context.Context, request string, w io.Writer) error {
		var r logs.Request
		if err := json.Unmarshal([]byte(request), &r); err != nil {
			return err
		}
		asks = append(asks, r)
		if times++; times == 1 {
			if err := lines(w, 1, -1, 2); err != nil {
				return err
			}
			return fail.New(fail.Unreachable, "the connection was lost").At("cp-1")
		}
		if err := lines(w, 3, -1, 4); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	ended := make(chan result, 1)
	go func() { ended <- v.show(ctx, []asked{m}) }()
	for tick := time.Tick(20 * time.Millisecond); strings.Count(out.String(), "\n") < 4; <-tick {
		if ctx.Err() != nil {
			t.Fatalf("got\n%s%s", out.String(), errOut.String())
		}
	}
	cancel()
	r := <-ended
	if err := r.end(ctx, true); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for i, want := range []string{"line 1", "line 2", "line 3", "line 4"} {
		if got := strings.Split(out.String(), "\n")[i]; !strings.HasSuffix(got, want) {
			t.Errorf("line %d is %q", i, got)
		}
	}
	if len(asks) != 2 || asks[0].Tail != 2 || asks[1].Tail != 0 || !asks[1].Since.After(time.Unix(2, 0)) || strings.Count(errOut.String(), "lost") != 1 {
		t.Errorf("asked %+v; said %s", asks, errOut.String())
	}
}
