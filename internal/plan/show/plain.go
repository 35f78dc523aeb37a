package show

import (
	"fmt"
	"io"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// plain writes one line when a step starts, ends, or reports a new error after a failed attempt.
type plain struct {
	w     io.Writer
	color bool
	began time.Time
	last  map[string]string // by step: the last retry that was shown
}

func newPlain(w io.Writer) *plain {
	return &plain{w: w, color: WantColor(w), last: map[string]string{}}
}

func (o *plain) Begin(p *plan.Plan, at time.Time) {
	o.began = at
	fmt.Fprintf(o.w, "%s: %s\n", words.Line(p.Heading()), words.Count(len(p.Steps), "step", "steps"))
}

func (o *plain) Event(e plan.Event) {
	switch e.State {
	case plan.Running:
		if e.Attempt == 1 {
			o.line(e.At, "›", "", e.Step.ID+"  "+e.Step.Title)
		}
	case plan.Retrying:
		if text := words.Line(e.Err.Error()); o.last[e.Step.ID] != text {
			o.last[e.Step.ID] = text
			o.line(e.At, "…", cyan, e.Step.ID+" not yet: "+text)
		}
	default:
		mark, color := stateLook(e.State)
		text := fmt.Sprintf("%s (%s)", e.Step.ID, words.Duration(e.At.Sub(e.Started)))
		if e.Err != nil {
			text += ": " + e.Err.Error()
		}
		o.line(e.At, mark, color, text)
	}
}

func (o *plain) Note(text string) { o.line(time.Now(), "!", yellow, text) }

func (o *plain) End(r *plan.Result) { fmt.Fprintln(o.w, endLine(r)) }

func (o *plain) line(at time.Time, mark, color, text string) {
	fmt.Fprintf(o.w, "%7s %s %s\n", words.Duration(at.Sub(o.began)), paint(o.color && color != "", color, mark), words.Line(text))
}

// stateLook returns the mark and colour of a step's state.
func stateLook(s plan.StepState) (mark, color string) {
	switch s {
	case plan.Succeeded:
		return "✓", green
	case plan.Failed:
		return "✗", red
	case plan.Stopped:
		return "■", yellow
	case plan.Skipped:
		return "○", faint
	case plan.Retrying:
		return "…", cyan
	default:
		return "›", ""
	}
}

// endLine summarizes a run: "apply demo: 40 steps done in 18.3s".
func endLine(r *plan.Result) string {
	s := fmt.Sprintf("%s: %d of %s done in %s", words.Line(r.Heading()), r.Count(plan.Succeeded),
		words.Count(len(r.Steps), "step", "steps"), words.Duration(r.Ended.Sub(r.Started)))
	for _, state := range []plan.StepState{plan.Failed, plan.Stopped, plan.Skipped} {
		if n := r.Count(state); n > 0 {
			word := string(state)
			if state == plan.Skipped {
				word = "not started"
			}
			s += fmt.Sprintf(", %d %s", n, word)
		}
	}
	return s
}
