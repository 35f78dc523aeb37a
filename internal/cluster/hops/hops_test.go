package hops

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
)

// TestOfPool: a pool stays with its release as long as that is not ahead of the others.
func TestOfPool(t *testing.T) {
	soak := Releases{Servers: "v1.37.2", Emulates: "1.36", Machines: "v1.36.4", Ahead: "v1.37.2"}
	for _, c := range []struct {
		now       Releases
		pin, want string
	}{
		{Of("v1.37.2"), "", "v1.37.2"}, {Of("v1.37.2"), "v1.36.4", "v1.36.4"}, {Of("v1.37.2"), "v1.37.2", "v1.37.2"},
		{soak, "v1.37.2", "v1.36.4"}, {soak, "v1.36.4", "v1.36.4"}, {soak, "v1.35.8", "v1.35.8"}, {soak, "", "v1.36.4"},
	} {
		if got := OfPool(c.now, c.pin); got != c.want {
			t.Errorf("a pool with %q in %v is %s, want %s", c.pin, c.now, got, c.want)
		}
	}
}

func TestPath(t *testing.T) {
	for _, c := range []struct {
		name string
		now  Releases
		goal Goal
		want []string
	}{
		{"nothing to do", Of("v1.36.4"), Goal{Version: "v1.36.4"}, nil},
		{"a patch", Of("v1.36.3"), Goal{Version: "v1.36.4"}, []string{"v1.36.3,,v1.36.3,v1.36.4", "v1.36.4,,v1.36.4,"}},
		{"a patch back", Of("v1.36.4"), Goal{Version: "v1.36.3"}, []string{"v1.36.4,,v1.36.4,v1.36.3", "v1.36.3,,v1.36.3,"}},
		{"a minor, until it is finished", Of("v1.36.4"), Goal{Version: "v1.37.2"},
			[]string{"v1.36.4,,v1.36.4,v1.37.2", "v1.37.2,1.36,v1.36.4,v1.37.2"}},
		{"a minor to its end", Of("v1.36.4"), Goal{"v1.37.2", true},
			[]string{"v1.36.4,,v1.36.4,v1.37.2", "v1.37.2,1.36,v1.36.4,v1.37.2", "v1.37.2,,v1.37.2,"}},
		{"finish", Releases{"v1.37.2", "1.36", "v1.36.4", "v1.37.2"}, Goal{"v1.37.2", true}, []string{"v1.37.2,,v1.37.2,"}},
		{"stay", Releases{"v1.37.2", "1.36", "v1.36.4", "v1.37.2"}, Goal{Version: "v1.37.2"}, nil},
		{"back", Releases{"v1.37.2", "1.36", "v1.36.4", "v1.37.2"}, Goal{Version: "v1.36.4"}, []string{"v1.36.4,,v1.36.4,"}},
		{"back before anything but files", Releases{"v1.36.4", "", "v1.36.4", "v1.37.2"}, Goal{Version: "v1.36.4"}, []string{"v1.36.4,,v1.36.4,"}},
		{"back, and a patch", Releases{"v1.37.2", "1.36", "v1.36.3", "v1.37.2"}, Goal{Version: "v1.36.4"},
			[]string{"v1.36.3,,v1.36.3,", "v1.36.3,,v1.36.3,v1.36.4", "v1.36.4,,v1.36.4,"}},
		{"another patch while it soaks", Releases{"v1.36.3", "1.35", "v1.35.8", "v1.36.3"}, Goal{Version: "v1.36.4"},
			[]string{"v1.36.3,1.35,v1.35.8,v1.36.4", "v1.36.4,1.35,v1.35.8,v1.36.4"}},
		{"two minors", Of("v1.35.8"), Goal{Version: "v1.37.2"}, []string{
			"v1.35.8,,v1.35.8,v1.36.4", "v1.36.4,1.35,v1.35.8,v1.36.4", "v1.36.4,,v1.36.4,", "v1.36.4,,v1.36.4,v1.37.2", "v1.37.2,1.36,v1.36.4,v1.37.2"}},
	} {
		path, err := Path(c.now, c.goal)
		var got []string
		for _, r := range path {
			got = append(got, r.String())
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		now  Releases
		goal string
	}{
		"an older minor":      {Of("v1.37.2"), "v1.36.4"},
		"an unknown minor":    {Of("v1.33.0"), "v1.37.2"},
		"older while soaking": {Releases{"v1.37.2", "1.36", "v1.36.4", "v1.37.2"}, "v1.35.8"},
	} {
		if path, err := Path(c.now, Goal{Version: c.goal}); fail.KindOf(err) != fail.Refused {
			t.Errorf("%s: %v, %v", name, path, err)
		}
	}
}

// TestEveryHop goes from every release to every other one, changes the goal at every hop, and checks Kubernetes' version skew policy at each:
// servers are not older than machines and at most one minor newer, and a hop uses only what was on the machines before.
func TestEveryHop(t *testing.T) {
	all := release.Versions()
	for _, from := range all {
		for _, to := range all {
			path, err := Path(Of(from), Goal{to, true})
			if older := minor(to) < minor(from); older != (err != nil) {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			now := Of(from)
			for _, next := range path {
				ahead := minor(next.Servers) - minor(next.Machines)
				if ahead < 0 || ahead > 1 || (ahead == 1) != next.Soaking() || minor(next.Machines)-minor(now.Machines) > 1 {
					t.Errorf("%s to %s: %v follows on %v", from, to, next, now)
				}
				for _, used := range []string{next.Servers, next.Machines} {
					if !slices.Contains(now.Versions(), used) {
						t.Errorf("%s to %s: %v is not on the machines after %v", from, to, used, now)
					}
				}
				if again, err := Parse(next.String()); err != nil || again != next {
					t.Errorf("%q: %v, %v", next, again, err)
				}
				back, err := Path(next, Goal{Version: next.Machines})
				if err != nil || len(back) > 1 || len(back) == 1 && !back[0].Settled() {
					t.Errorf("back from %v: %v, %v", next, back, err)
				}
				now = next
			}
			if err == nil && now != Of(to) {
				t.Errorf("%s to %s ends at %v", from, to, now)
			}
		}
	}
}

func TestTurn(t *testing.T) {
	old, soak, done := Of("v1.36.4"), Releases{"v1.37.2", "1.36", "v1.36.4", "v1.37.2"}, Of("v1.37.2")
	ahead := Releases{"v1.36.4", "", "v1.36.4", "v1.37.2"}
	for _, c := range []struct {
		told, run Releases
		goal      string
		want      Releases
		refused   bool
	}{
		{soak, ahead, "v1.37.2", soak, false},
		{soak, ahead, "v1.36.4", old, false},
		{ahead, old, "v1.36.4", old, false},
		{old, soak, "v1.37.2", old, false}, // it goes back to its end first
		{done, soak, "v1.37.2", done, false},
		{done, soak, "v1.36.4", done, true},
	} {
		got, err := Turn(c.told, c.run, Goal{Version: c.goal})
		if got != c.want || (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "no way back") {
			t.Errorf("told %v of %v, to %s: %v, %v", c.told, c.run, c.goal, got, err)
		}
	}
}

func TestWords(t *testing.T) {
	for want, r := range map[string]Releases{
		"everything runs v1.37.2":                      Of("v1.37.2"),
		"all API servers run v1.37.2 and emulate 1.36": {"v1.37.2", "1.36", "v1.36.4", "v1.37.2"},
		"every machine has the files of v1.37.2":       {"v1.36.4", "", "v1.36.4", "v1.37.2"},
	} {
		if got := r.Words(); got != want {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
	if _, err := Parse("v1.37.2"); err == nil {
		t.Error("what says nothing was read")
	}
}
