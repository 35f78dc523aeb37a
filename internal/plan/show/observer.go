// Package show has plans and their runs seen by people and programs: a plan as text or JSON, a run while it happens as a live tree, as
// lines or as JSON, and a recorded one as a timeline on the terminal or in a web page.
//
// It decides nothing about what is carried out, and knows nothing of Kubernetes or machines.
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
	ObservePlain ObserverKind = "plain" // one line an event
	ObserveJSON  ObserverKind = "json"  // one JSON object a line
	ObserveNone  ObserverKind = "none"  // nothing
)

// NewObserver returns an observer of a kind that writes to w. Colours are left out where NO_COLOR is set.
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
