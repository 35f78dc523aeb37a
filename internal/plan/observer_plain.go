package plan

import (
	"fmt"
	"io"
	"time"
)

// plain writes one line when a step starts, ends, or has something new to say after a failed attempt.
type plain struct {
	w     io.Writer
	color bool
	began time.Time
	last  map[string]string // by step: the last retry shown
}

func newPlain(w io.Writer) *plain {
	return &plain{w: w, color: WantColor(w), last: map[string]string{}}
}

func (o *plain) Begin(p *Plan, at time.Time) {
	o.began = at
	fmt.Fprintf(o.w, "%s %s: %s\n", clean(p.Verb), clean(p.Cluster), plural(len(p.Steps), "step", "steps"))
}

func (o *plain) Event(e Event) {
	switch e.State {
	case Running:
		if e.Attempt == 1 {
			o.line(e.At, "›", "", e.Step.ID+"  "+e.Step.Title)
		}
	case Retrying:
		if text := clean(e.Err.Error()); o.last[e.Step.ID] != text {
			o.last[e.Step.ID] = text
			o.line(e.At, "…", cyan, e.Step.ID+" not yet: "+text)
		}
	default:
		mark, color := stateLook(e.State)
		text := fmt.Sprintf("%s (%s)", e.Step.ID, short(e.At.Sub(e.Started)))
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
		o.line(e.At, mark, color, text)
	}
}

func (o *plain) Note(text string) { o.line(time.Now(), "!", yellow, text) }

func (o *plain) End(r *Result) { fmt.Fprintln(o.w, endLine(r)) }

func (o *plain) line(at time.Time, mark, color, text string) {
	fmt.Fprintf(o.w, "%7s %s %s\n", short(at.Sub(o.began)), paint(o.color && color != "", color, mark), clean(text))
}

// stateLook is how a step's state is shown.
func stateLook(s StepState) (mark, color string) {
	switch s {
	case Succeeded:
		return "✓", green
	case Failed:
		return "✗", red
	case Stopped:
		return "■", yellow
	case Skipped:
		return "○", faint
	case Retrying:
		return "…", cyan
	default:
		return "›", ""
	}
}

// endLine sums a run up: "apply demo: 40 steps done in 18.3s".
func endLine(r *Result) string {
	s := fmt.Sprintf("%s %s: %d of %s done in %s", clean(r.Verb), clean(r.Cluster), r.Count(Succeeded),
		plural(len(r.Steps), "step", "steps"), short(r.Ended.Sub(r.Started)))
	for _, state := range []StepState{Failed, Stopped, Skipped} {
		if n := r.Count(state); n > 0 {
			word := string(state)
			if state == Skipped {
				word = "not started"
			}
			s += fmt.Sprintf(", %d %s", n, word)
		}
	}
	return s
}
