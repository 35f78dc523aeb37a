package upkeep

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Sick is a machine that is off or whose node is not Ready.
type Sick struct {
	Name         string
	ControlPlane bool
	Since        time.Time // when its node stopped being Ready
	Why          string    // it is not, in the API's words
	Off          bool      // its provider reports it as off; the API may still call the node Ready
	Ladder       Ladder
	Leave        string          // why it is repaired only if requested by name; empty: it may be repaired
	Never        string          // why it is never repaired
	Cannot       map[Rung]string // which rungs it can't climb, and why
	Reinstalls   bool            // the machine can be reinstalled; otherwise there is no such rung
}

// Rules define when machines are repaired.
type Rules struct {
	After        time.Duration // not Ready for this long, a machine is sick
	Patience     time.Duration // that a rung is given to work
	MaxUnhealthy int           // percent of all, above which none is repaired
}

// Round is the action of one round of repair.
type Round struct {
	Machine string   // the machine to repair; empty: none
	Rung    Rung     // the remedy
	Skipped []string // why the rungs before it were left out
	Notes   []string // further notes about the sick machines, one sentence each
	Stuck   []string // machines for which nothing is left to be tried, or that must not be touched
}

// Next returns the next action for the sick among total machines: one rung for one machine. only names a machine that the user selected: it is
// repaired at once, even if many others are sick. Next returns fail.Refused if so many are sick that the cause is not in the machines.
func Next(sick []Sick, total int, r Rules, only string, now time.Time) (Round, error) {
	if limit := max(1, total*r.MaxUnhealthy/100); only == "" && len(sick) > limit {
		return Round{}, braked(sick, total, limit)
	}
	sick = slices.Clone(sick)
	slices.SortStableFunc(sick, inTurn)
	round := Round{}
	for _, s := range sick { // never two at once
		if last := s.Ladder.last(); last != nil && !s.Ladder.unfinished() && now.Before(last.At.Add(r.Patience)) && (only == "" || only == s.Name) {
			round.Notes = append(round.Notes, fmt.Sprintf("%s was %s: it has until %s to become Ready; meanwhile no other machine is repaired",
				s.Name, s.Ladder.Words()[len(s.Ladder.Tries)-1], clock(last.At.Add(r.Patience))))
			return round, nil
		}
	}
	for _, s := range sick {
		if only != "" && s.Name != only {
			continue
		}
		rung, skipped, note := s.due(r, only != "", now)
		switch {
		case note != "":
			round.Notes = append(round.Notes, note)
		case rung == "":
			round.Stuck = append(round.Stuck, s.Name)
			round.Notes = append(round.Notes, s.Name+": "+s.exhausted(skipped))
		case round.Machine == "":
			round.Machine, round.Rung, round.Skipped = s.Name, rung, skipped
		default:
			round.Notes = append(round.Notes, s.Name+" is not Ready either: its turn comes once "+round.Machine+" is Ready, or nothing is left to try there")
		}
	}
	return round, nil
}

// due returns the rung that a machine is to climb now, and why those before it were left out; or why it is not its time.
func (s Sick) due(r Rules, asked bool, now time.Time) (rung Rung, skipped []string, note string) {
	switch {
	case s.Never != "":
		return "", []string{s.Never}, ""
	case s.Leave != "" && !asked:
		return "", nil, s.Name + ": " + s.Leave
	case s.Ladder.unfinished():
		return s.Ladder.last().Rung, nil, ""
	case s.Off && s.Ladder.last() == nil && !asked && now.Before(s.Since.Add(r.After)):
		return "", nil, fmt.Sprintf("%s is off; it is repaired from %s on; naupegos apply starts it now, and so does repair --machine %s", s.Name, clock(s.Since.Add(r.After)), s.Name)
	case s.Ladder.last() == nil && !asked && now.Before(s.Since.Add(r.After)):
		return "", nil, fmt.Sprintf("%s: not Ready since %s (%s); it is repaired from %s on", s.Name, clock(s.Since), s.Why, clock(s.Since.Add(r.After)))
	}
	climbed := -1
	if last := s.Ladder.last(); last != nil {
		climbed = slices.Index(rungs(), last.Rung)
	}
	for _, next := range rungs()[climbed+1:] {
		if next == Reinstall && !s.Reinstalls {
			continue
		}
		why := s.Cannot[next]
		if why == "" {
			return next, skipped, ""
		}
		skipped = append(skipped, fmt.Sprintf("no %s: %s", words[next], why))
	}
	return "", skipped, ""
}

var words = map[Rung]string{Reboot: "reboot", Cycle: "power cycle", Reinstall: "installation", Replace: "replacement"}

// exhausted states that no remedy is left.
func (s Sick) exhausted(skipped []string) string {
	tried := append(s.Ladder.Words(), skipped...)
	if s.Never != "" {
		return "it is not repaired: " + s.Never
	}
	return fmt.Sprintf("still not Ready (%s), and nothing is left to try (%s)", s.Why, strings.Join(tried, "; "))
}

// inTurn orders the sick: interrupted rungs first, then the control plane, then the longest sick.
func inTurn(a, b Sick) int {
	first := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	if n := first(a.Ladder.unfinished(), b.Ladder.unfinished()); n != 0 {
		return n
	}
	if n := first(a.ControlPlane, b.ControlPlane); n != 0 {
		return n
	}
	if n := a.Since.Compare(b.Since); n != 0 {
		return n
	}
	return strings.Compare(a.Name, b.Name)
}

// braked returns the error for too many sick machines.
func braked(sick []Sick, total, limit int) error {
	var names []string
	for _, s := range sick {
		names = append(names, s.Name)
	}
	return fail.New(fail.Refused, "%d of %d nodes are not Ready (%s), and at most %d may be: nothing was touched", len(sick), total, strings.Join(names, ", "), limit).
		Do("look for what they have in common, a network or a host; --machine MACHINE repairs one all the same, and spec.repair.maxUnhealthy says how many may be sick")
}

func clock(t time.Time) string { return t.UTC().Format(time.DateTime + " MST") }
