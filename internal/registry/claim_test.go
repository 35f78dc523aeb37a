package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAgain: a machine that is only to be reinstalled gets its seat again, whatever other machines are free, unless another machine had the seat since.
func TestAgain(t *testing.T) {
	d := &facts.Discovery{Disks: []facts.Disk{{SizeBytes: 1 << 40}}}
	now := time.Now()
	machine := func(uuid string, had *Had) Machine {
		return Machine{Facts: d, Machine: metal.Machine{UUID: uuid, Approval: string(Approved)}, Record: Record{Had: had}}
	}
	had := func(ago time.Duration, again bool) *Had {
		return &Had{metal.Claim{Cluster: "demo", Pool: "general", Seat: 2}, now.Add(-ago), again}
	}
	seats := []Seat{{Pool: "general", Number: 1}, {Pool: "general", Number: 2}}
	holder := func(all ...Machine) string {
		given, err := choose("demo", "", seats, all)
		testkit.Must(t, err)
		return given[slices.IndexFunc(given, func(g Given) bool { return g.Seat == 2 })].UUID
	}
	if got := holder(machine("a", had(time.Hour, true)), machine("b", nil)); got != "a" {
		t.Errorf("%s has the seat", got)
	}
	seats = seats[1:]
	if got := holder(machine("a", had(time.Hour, true)), machine("b", had(time.Minute, false)), machine("c", nil)); got != "c" {
		t.Errorf("%s has the seat, which another one had since", got)
	}
}

// TestChooseFindsAWay: for all combinations of three machines, their racks and three seats, choose fills all seats if that is possible, and none otherwise.
func TestChooseFindsAWay(t *testing.T) {
	d := &facts.Discovery{Disks: []facts.Disk{{SizeBytes: 1 << 40}}}
	permutations := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for racks := range 8 {
		var all []Machine
		for i := range 3 {
			all = append(all, Machine{Facts: d, Machine: metal.Machine{UUID: fmt.Sprint(i), Approval: string(Approved), Labels: map[string]string{"rack": fmt.Sprint(racks >> i & 1)}}})
		}
		for takes := range 512 {
			may := func(seat, machine int) bool { return takes>>(3*seat+machine)&1 == 1 }
			var seats []Seat
			for i := range 3 {
				seats = append(seats, Seat{Pool: "general", Number: i + 1, Fits: func(m *Machine) string {
					if may(i, int(m.UUID[0]-'0')) {
						return ""
					}
					return "no"
				}})
			}
			possible := slices.ContainsFunc(permutations, func(p []int) bool { return may(0, p[0]) && may(1, p[1]) && may(2, p[2]) })
			given, err := choose("demo", "rack", seats, all)
			if (err == nil) != possible || err != nil && fail.KindOf(err) != fail.Refused {
				t.Fatalf("%09b, racks %03b: possible %t, %v", takes, racks, possible, err)
			}
			taken := map[string]bool{}
			for _, g := range given {
				if taken[g.UUID] || !may(g.Seat-1, int(g.UUID[0]-'0')) {
					t.Fatalf("%09b, racks %03b: %+v", takes, racks, given)
				}
				taken[g.UUID] = true
			}
			if err == nil && len(given) != 3 {
				t.Fatalf("%09b, racks %03b: %d given", takes, racks, len(given))
			}
		}
	}
}
