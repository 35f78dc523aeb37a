package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/store/metal"
)

// State is the state of a machine.
type State string

// The states.
const (
	Unseen     State = ""           // not heard from yet
	Booting    State = "booting"    // asked what to boot
	Discovered State = "discovered" // reported its facts
	Granted    State = "granted"    // may be installed, and has not reported the end
	Denied     State = "denied"     // wants to be installed, and must wait
	Installed  State = "installed"  // installed
	Failed     State = "failed"     // its installation failed
	Running    State = "running"    // its installed system reports
)

// Happening is an event that changes a machine's state.
type Happening string

// The happenings.
const (
	Boots     Happening = "asks what to boot"
	Discovers Happening = "says what it is"
	Grants    Happening = "may be installed"
	Denies    Happening = "has to wait for its installation"
	Succeeds  Happening = "was installed"
	Fails     Happening = "was not installed"
	Reports   Happening = "reports from its installed system"
)

// transition is a row of the state machine.
type transition struct {
	on   Happening
	from []State // empty: any
	to   State
}

// transitions is the whole state machine. Other happenings leave the state unchanged: machines may send anything, in any order.
var transitions = []transition{
	{Boots, nil, Booting},
	{Discovers, nil, Discovered},
	{Grants, nil, Granted},
	{Denies, []State{Unseen, Booting, Discovered, Denied, Failed}, Denied},
	{Succeeds, []State{Booting, Discovered, Granted, Denied, Failed}, Installed},
	{Fails, []State{Booting, Discovered, Granted, Denied, Failed}, Failed},
	{Reports, []State{Unseen, Booting, Discovered, Granted, Denied, Installed, Failed}, Running},
}

// after returns the state after an event.
func (s State) after(h Happening) State {
	for _, t := range transitions {
		if t.on == h && (len(t.from) == 0 || slices.Contains(t.from, s)) {
			return t.to
		}
	}
	return s
}

// States describes the state machine for people, as Markdown generated from it.
func States() string {
	var b strings.Builder
	b.WriteString("| a machine … | from | becomes |\n|---|---|---|\n")
	for _, t := range transitions {
		from := "any state"
		if len(t.from) > 0 {
			names := make([]string, 0, len(t.from))
			for _, s := range t.from {
				if s == Unseen {
					s = "new"
				}
				names = append(names, string(s))
			}
			from = strings.Join(names, ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", t.on, from, t.to)
	}
	return b.String()
}

// happens applies an event to a machine's state, and records it.
func happens(d *metal.Draft, rec *Record, h Happening, why string) {
	next := State(d.State).after(h)
	d.Note(string(h), why)
	if next == State(d.State) {
		if next == Denied || next == Failed {
			rec.Why = why
		}
		return
	}
	d.State, rec.StateAt, rec.Why = string(next), time.Now().UTC().Truncate(time.Microsecond), why
}
