package plan

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Observer shows a run to whoever watches. Execute makes its calls one at a time.
type Observer interface {
	Begin(p *Plan, at time.Time) // once, first
	Event(e Event)               // each time a step changes its state or status
	Note(text string)            // something about the run as a whole: "stopping after the running steps"
	End(r *Result)               // once, last; leaves the terminal as it was
}

// Event is one change of one step.
type Event struct {
	Step    *Step
	State   StepState
	At      time.Time
	Started time.Time // when the step started; zero if it never did
	Status  string    // the step's own words on what it does
	Attempt int       // 1-based
	Err     error     // of Retrying, Failed and Stopped
}

// ObserverKind names a way of showing a run.
type ObserverKind string

// The observers.
const (
	ObserveAuto  ObserverKind = ""      // ObserveTTY on a terminal, ObservePlain elsewhere
	ObserveTTY   ObserverKind = "tty"   // live tree
	ObservePlain ObserverKind = "plain" // one line an event
	ObserveJSON  ObserverKind = "json"  // one JSON object a line
	ObserveNone  ObserverKind = "none"  // nothing
)

// NewObserver returns an observer of a kind that writes to w. Colours are left out where NO_COLOR is set.
func NewObserver(w io.Writer, kind ObserverKind) Observer {
	if kind == ObserveAuto {
		kind = ObservePlain
		if isTerminal(w) {
			kind = ObserveTTY
		}
	}
	switch kind {
	case ObserveTTY:
		return newTTY(w)
	case ObserveJSON:
		return newJSONLines(w)
	case ObserveNone:
		return quiet{}
	default:
		return newPlain(w)
	}
}

// WantColor reports whether colours should be written to w: it is a terminal, and NO_COLOR is not set.
func WantColor(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(w) }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

type quiet struct{}

func (quiet) Begin(*Plan, time.Time) {}
func (quiet) Event(Event)            {}
func (quiet) Note(string)            {}
func (quiet) End(*Result)            {}
