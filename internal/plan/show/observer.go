// Package show presents plans and their runs to people and programs: a plan as text or JSON, a run in progress as a live tree, as lines or as JSON,
// and a recorded run as a timeline on the terminal or in a web page.
//
// It does not decide what is executed, and knows nothing of Kubernetes or machines.
package show

import (
	"io"

	"github.com/naupegos/naupegos/internal/plan"
)

// ObserverKind names a way of showing a run.
type ObserverKind string

// The observers.
const (
	ObserveAuto  ObserverKind = ""      // ObserveTTY on a terminal, ObservePlain elsewhere
	ObserveTTY   ObserverKind = "tty"   // live tree
	ObservePlain ObserverKind = "plain" // one line per event
	ObserveJSON  ObserverKind = "json"  // one JSON object per line
	ObserveNone  ObserverKind = "none"  // nothing
)

// NewObserver returns an observer of a kind that writes to w, without colours if NO_COLOR is set.
func NewObserver(w io.Writer, kind ObserverKind) plan.Observer {
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
		return plan.NoObserver{}
	default:
		return newPlain(w)
	}
}
