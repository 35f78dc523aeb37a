package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// play feeds a short run with fixed times to an observer.
func play(o plan.Observer) {
	t0 := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	p := sample()
	at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	ev := func(i int, st plan.StepState, s, started float64, attempt int, status string, err error) {
		o.Event(plan.Event{Step: p.Steps[i], State: st, At: at(s), Started: at(started), Attempt: attempt, Status: status, Err: err})
	}
	o.Begin(p, t0)
	ev(0, plan.Running, 0, 0, 1, "", nil)
	ev(0, plan.Succeeded, 0.4, 0, 0, "", nil)
	ev(1, plan.Running, 0.4, 0.4, 1, "", nil)
	ev(2, plan.Running, 0.5, 0.5, 1, "", nil)
	ev(1, plan.Running, 2, 0.4, 0, "waiting for \x1b[2JSSH", nil)
	ev(1, plan.Retrying, 3, 0.4, 1, "waiting for SSH", errors.New("connection\nrefused"))
	ev(1, plan.Retrying, 4, 0.4, 2, "waiting for SSH", errors.New("connection\nrefused"))
	ev(1, plan.Succeeded, 12.3, 0.4, 0, "", nil)
	ev(2, plan.Failed, 13, 0.5, 0, "", errors.New("demo-gw-1: write file: no space left on device\n(make room)"))
	r := &plan.Result{RunRecord: plan.RunRecord{ID: "run1", Verb: p.Verb, Cluster: p.Cluster, Outcome: plan.OutcomeFailed, Started: t0, Ended: at(13)}}
	for _, s := range []plan.StepState{plan.Succeeded, plan.Succeeded, plan.Failed, plan.Skipped, plan.Skipped, plan.Skipped} {
		r.Steps = append(r.Steps, plan.StepRecord{State: s})
	}
	o.End(r)
}

func TestPlainObserver(t *testing.T) {
	var b bytes.Buffer
	play(NewObserver(&b, ObserveAuto)) // a buffer is not a terminal
	testkit.Golden(t, "observer.plain.txt", b.Bytes())
}

func TestJSONObserver(t *testing.T) {
	var b bytes.Buffer
	play(NewObserver(&b, ObserveJSON))
	testkit.Golden(t, "observer.jsonl", b.Bytes())
	for l := range strings.Lines(b.String()) {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
}

// screen is a terminal emulator for the few sequences that the live tree uses.
type screen struct {
	mu     sync.Mutex
	lines  []string
	row    int
	widest int
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(b)
	for text != "" {
		var n int
		switch {
		case strings.HasPrefix(text, "\x1b[?2026"):
			text = text[len("\x1b[?2026h"):]
		case strings.HasPrefix(text, "\x1b[K"):
			text = text[3:]
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines, text = s.lines[:min(s.row, len(s.lines))], text[3:]
		case strings.HasPrefix(text, "\x1b["):
			if _, err := fmt.Sscanf(text, "\x1b[%dA", &n); err != nil || n > s.row {
				return 0, fmt.Errorf("can't move up %d from row %d: %q", n, s.row, text[:10])
			}
			s.row -= n
			text = text[strings.IndexByte(text, 'A')+1:]
		case text[0] == '\r':
			text = text[1:]
		case text[0] == '\n':
			s.row, text = s.row+1, text[1:]
		default:
			n = strings.IndexAny(text, "\x1b\r\n")
			for len(s.lines) <= s.row {
				s.lines = append(s.lines, "")
			}
			s.lines[s.row] = text[:n]
			s.widest = max(s.widest, ansi.StringWidth(text[:n]))
			text = text[n:]
		}
	}
	return len(b), nil
}

func TestTTYObserver(t *testing.T) {
	s := &screen{}
	o := newTTY(s)
	t0 := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	o.size, o.now = func() (int, int) { return 70, 20 }, func() time.Time { return t0.Add(5 * time.Second) }
	p := sample()
	o.Begin(p, t0)
	o.Event(plan.Event{Step: p.Steps[0], State: plan.Running, At: t0, Started: t0, Attempt: 1})
	o.Event(plan.Event{Step: p.Steps[1], State: plan.Running, At: t0, Started: t0, Attempt: 1, Status: strings.Repeat("waiting for SSH ", 20)})
	o.mu.Lock()
	o.spin = 0
	o.draw(true)
	o.mu.Unlock()
	o.Event(plan.Event{Step: p.Steps[0], State: plan.Succeeded, At: t0.Add(time.Second), Started: t0})
	o.mu.Lock()
	o.draw(true)
	o.mu.Unlock()
	s.mu.Lock()
	got := strings.Join(s.lines, "\n")
	s.mu.Unlock()
	for _, want := range []string{"✓ cluster: create network 10.1.0.0/24  1.0s", "demo-cp-1\n  ", " boot machine demo-cp-1  5.0s  waiting for SSH", " 1/6  5.0s"} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%s", want, got)
		}
	}
	if s.widest > 69 {
		t.Errorf("%d columns of 70 used: it would wrap", s.widest)
	}
	o.End(&plan.Result{RunRecord: plan.RunRecord{Verb: "apply", Cluster: "demo", Started: t0, Ended: t0.Add(time.Second)}})
	if n := len(s.lines); n != 2 || !strings.HasPrefix(s.lines[1], "apply demo: 0 of 0 steps done") {
		t.Errorf("what is left on the screen: %q", s.lines)
	}
}

// TestTTYFits renders trees of many sizes on terminals of many sizes.
func TestTTYFits(t *testing.T) {
	o := newTTY(&screen{})
	for n := range 40 {
		o.running = append(o.running, &live{step: &plan.Step{ID: "x", Title: strings.Repeat("長い", n), Subject: fmt.Sprint(n / 3)}, status: "status", retry: "no"})
		for _, size := range [][2]int{{80, 24}, {20, 5}, {3, 2}, {1, 1}, {300, 100}} {
			lines := o.tree(size[0], size[1])
			if len(lines) > max(size[1]-1, 2) {
				t.Errorf("%d lines in a terminal of %d", len(lines), size[1])
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l); w > max(size[0]-1, 1) {
					t.Errorf("%d columns in a terminal of %d: %q", w, size[0], l)
				}
			}
		}
	}
}
