package upkeep

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

var rules = Rules{After: 5 * time.Minute, Patience: 10 * time.Minute, MaxUnhealthy: 34}

func sick(name string, since time.Duration) Sick {
	return Sick{Name: name, Since: began.Add(since), Why: "NodeStatusUnknown"}
}

// TestLadder lets one machine fail and be repaired every minute for an hour: each rung is climbed once, no sooner than the one before had its time.
func TestLadder(t *testing.T) {
	for name, c := range map[string]struct {
		cannot map[Rung]string
		want   []string
	}{
		"everything": {nil, []string{"5 reboot", "15 power-cycle", "25 replace"}},
		"physical":   {nil, []string{"5 reboot", "15 power-cycle", "25 reinstall", "35 replace"}},
		"broken":     {map[Rung]string{Reinstall: "its disk is gone"}, []string{"5 reboot", "15 power-cycle", "25 replace"}},
		"a host":     {map[Rung]string{Cycle: "no power control"}, []string{"5 reboot", "15 replace"}},
		"silent":     {map[Rung]string{Reboot: "it does not answer", Cycle: "no power control", Replace: "it can't be cleaned"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := sick("a", 0)
			s.Cannot, s.Reinstalls = c.cannot, name == "physical" || name == "broken"
			var did []string
			for minute := range 60 {
				now := began.Add(time.Duration(minute) * time.Minute)
				r, err := Next([]Sick{s}, 3, rules, "", now)
				testkit.Must(t, err)
				if r.Machine == "" {
					if minute > 50 && !slices.Equal(r.Stuck, []string{"a"}) {
						t.Fatalf("minute %d: nothing is left to be tried, and %+v", minute, r)
					}
					continue
				}
				did = append(did, fmt.Sprintf("%d %s", minute, r.Rung))
				s.Ladder = testkit.Value(ParseLadder(s.Ladder.Begin(r.Rung, now).Finish(now).String()))(t)
			}
			if !slices.Equal(did, c.want) {
				t.Errorf("climbed %q, want %q", did, c.want)
			}
		})
	}
}

// TestCutOff kills the run in the middle of each rung again and again: a rung is begun at most twice, and the ladder ends.
func TestCutOff(t *testing.T) {
	s := sick("a", 0)
	var did []Rung
	for minute := range 90 {
		now := began.Add(time.Duration(minute) * time.Minute)
		r, err := Next([]Sick{s}, 3, rules, "", now)
		testkit.Must(t, err)
		if r.Machine != "" {
			did = append(did, r.Rung)
			s.Ladder = s.Ladder.Begin(r.Rung, now)
		}
	}
	if want := []Rung{Reboot, Reboot, Cycle, Cycle, Replace, Replace}; !slices.Equal(did, want) {
		t.Errorf("climbed %q, want %q", did, want)
	}
}

// TestNeverTwo: of two failed machines, the second is not touched while the first one's remedy takes its time; its turn comes once no remedy is
// left for the first.
func TestNeverTwo(t *testing.T) {
	a, b := sick("a", 0), sick("b", -time.Minute)
	a.ControlPlane = true
	now := began.Add(6 * time.Minute)
	r, err := Next([]Sick{b, a}, 9, rules, "", now)
	testkit.Must(t, err)
	if r.Machine != "a" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "b is not Ready either") {
		t.Fatalf("the control plane comes first: %+v", r)
	}
	a.Ladder = a.Ladder.Begin(Reboot, now).Finish(now)
	if r, err = Next([]Sick{b, a}, 9, rules, "", now.Add(9*time.Minute)); err != nil || r.Machine != "" || len(r.Notes) != 1 {
		t.Errorf("one is given its time: %+v, %v", r, err)
	}
	for _, rung := range []Rung{Cycle, Replace} {
		a.Ladder = a.Ladder.Begin(rung, now).Finish(now)
	}
	if r, err = Next([]Sick{b, a}, 9, rules, "", now.Add(11*time.Minute)); err != nil || r.Machine != "b" || !slices.Equal(r.Stuck, []string{"a"}) {
		t.Errorf("nothing is left for a: %+v, %v", r, err)
	}
	b.Ladder = b.Ladder.Begin(Reboot, now) // cut off
	if r, err = Next([]Sick{a, b}, 9, rules, "", now.Add(11*time.Minute)); err != nil || r.Machine != "b" || r.Rung != Reboot {
		t.Errorf("a rung that was cut off is begun again: %+v, %v", r, err)
	}
}

// TestBrake refuses where more fail together than the document allows, the young failures counted, and lets one always be repaired.
func TestBrake(t *testing.T) {
	now := began.Add(time.Hour)
	for _, c := range []struct{ sick, total, percent int }{{1, 1, 34}, {1, 3, 34}, {1, 100, 1}, {2, 6, 34}, {3, 9, 34}, {5, 5, 100}} {
		if _, err := Next(many(c.sick), c.total, Rules{MaxUnhealthy: c.percent}, "", now); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []struct{ sick, total, percent int }{{2, 3, 34}, {2, 5, 34}, {4, 9, 34}, {2, 100, 1}} {
		_, err := Next(many(c.sick), c.total, Rules{MaxUnhealthy: c.percent, After: 2 * time.Hour}, "", now)
		if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "--machine") {
			t.Errorf("%+v: %v", c, err)
		}
		if r, err := Next(many(c.sick), c.total, Rules{MaxUnhealthy: c.percent}, "m2", now); err != nil || r.Machine != "m2" {
			t.Errorf("%+v, asked for by name: %+v, %v", c, r, err)
		}
	}
}

func many(n int) (all []Sick) {
	for i := range n {
		all = append(all, sick(fmt.Sprintf("m%d", i+1), 0))
	}
	return all
}

func TestLeftAlone(t *testing.T) {
	cordoned, quorum := sick("a", 0), sick("b", 0)
	cordoned.Leave, quorum.Never = "a user has cordoned it", "etcd would lose its quorum"
	now := began.Add(time.Hour)
	r, err := Next([]Sick{cordoned, quorum}, 9, rules, "", now)
	if err != nil || r.Machine != "" || !slices.Equal(r.Stuck, []string{"b"}) || len(r.Notes) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = Next([]Sick{cordoned, quorum}, 9, rules, "a", now); err != nil || r.Machine != "a" || r.Rung != Reboot {
		t.Errorf("asked for by name: %+v, %v", r, err)
	}
	if r, err = Next([]Sick{cordoned, quorum}, 9, rules, "b", now); err != nil || r.Machine != "" {
		t.Errorf("quorum comes first, also for a named machine: %+v, %v", r, err)
	}
}

func TestOver(t *testing.T) {
	l := Ladder{}.Begin(Reboot, began).Finish(began)
	if l.Over(began.Add(-time.Hour), began.Add(5*time.Minute), rules.Patience) {
		t.Error("it was rebooted five minutes ago: whether it stays well is not known")
	}
	if !l.Over(began.Add(time.Minute), began.Add(11*time.Minute), rules.Patience) {
		t.Error("it is well for as long as a rung is given")
	}
}
