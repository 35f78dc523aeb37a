// Package upkeep selects the machine to repair next, and the remedy: it defines the ladder of remedies, the order of sick machines, and the brake
// if many fail together.
//
// It is pure: it uses only its arguments, and acts on nothing.
package upkeep

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Rung is one remedy.
type Rung string

// The rungs of the ladder, the mildest first.
const (
	Reboot    Rung = "reboot"      // shut down cleanly, and started
	Cycle     Rung = "power-cycle" // switched off without a shutdown, and started
	Reinstall Rung = "reinstall"   // installed from scratch, if its provider supports that
	Replace   Rung = "replace"     // another machine takes its place
)

// Replaces reports whether a rung destroys the machine's state: the machine leaves the cluster, and it or another one joins in its place.
func (r Rung) Replaces() bool { return r == Reinstall || r == Replace }

func rungs() []Rung { return []Rung{Reboot, Cycle, Reinstall, Replace} }

// cutOff is how often a rung is begun that was cut off: once more than a run that got to its end.
const cutOff = 2

// Try is a rung that was climbed.
type Try struct {
	Rung  Rung      `json:"rung"`
	At    time.Time `json:"at"`    // when it was begun last
	Times int       `json:"times"` // number of attempts: more than one if a run was interrupted
	Done  bool      `json:"done,omitempty"`
}

// Ladder records the attempts to repair one failure of a machine. It is saved before each attempt, so that a crash can't repeat a rung forever.
type Ladder struct {
	Since time.Time `json:"since"` // when the failure was first seen
	Tries []Try     `json:"tries,omitempty"`
}

// ParseLadder parses the output of String; the empty text is a ladder without attempts.
func ParseLadder(text string) (l Ladder, err error) {
	if text == "" {
		return l, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return Ladder{}, fail.Wrap(fail.Internal, err, "read the attempts to repair a machine")
	}
	return l, nil
}

// String is the form in which a ladder is remembered.
func (l Ladder) String() string {
	text, err := json.Marshal(l)
	if err != nil { // times and words always have a form
		return ""
	}
	return string(text)
}

// IsZero reports whether nothing is remembered.
func (l Ladder) IsZero() bool { return l.Since.IsZero() && len(l.Tries) == 0 }

// Begin returns the ladder with a rung begun, or repeated if it was interrupted.
func (l Ladder) Begin(r Rung, now time.Time) Ladder {
	l.Tries = slices.Clone(l.Tries)
	if last := l.last(); last != nil && last.Rung == r {
		last.At, last.Times, last.Done = now, last.Times+1, false
		return l
	}
	l.Tries = append(l.Tries, Try{Rung: r, At: now, Times: 1})
	return l
}

// Finish returns the ladder with its last rung carried out; whether it has helped is not known yet.
func (l Ladder) Finish(now time.Time) Ladder {
	l.Tries = slices.Clone(l.Tries)
	if last := l.last(); last != nil {
		last.At, last.Done = now, true
	}
	return l
}

// last returns the last attempt, or nil.
func (l Ladder) last() *Try {
	if len(l.Tries) == 0 {
		return nil
	}
	return &l.Tries[len(l.Tries)-1]
}

// unfinished reports whether the last rung was cut off, and is to be begun again.
func (l Ladder) unfinished() bool {
	last := l.last()
	return last != nil && !last.Done && last.Times < cutOff
}

// Resumes reports whether a rung was begun and is not known to be done.
func (l Ladder) Resumes(r Rung) bool {
	last := l.last()
	return last != nil && last.Rung == r && !last.Done
}

// Over reports whether the failure is over: the machine has been healthy for as long as a rung may take.
func (l Ladder) Over(since, now time.Time, patience time.Duration) bool {
	if last := l.last(); last != nil && last.At.After(since) {
		since = last.At // the last attempt has repaired it
	}
	return now.Sub(since) >= patience
}

// Words describes the attempts with their times.
func (l Ladder) Words() (tried []string) {
	done := map[Rung]string{Reboot: "rebooted", Cycle: "power-cycled", Reinstall: "reinstalled", Replace: "replaced"}
	begun := map[Rung]string{Reboot: "a reboot was interrupted", Cycle: "a power cycle was interrupted", Reinstall: "an installation was interrupted", Replace: "a replacement was interrupted"}
	for _, t := range l.Tries {
		word := done[t.Rung]
		if !t.Done {
			word = begun[t.Rung]
		}
		tried = append(tried, word+" at "+t.At.UTC().Format(time.DateTime))
	}
	return tried
}
