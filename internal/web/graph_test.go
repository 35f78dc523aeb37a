package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/plan"
)

func TestGraph(t *testing.T) {
	step := func(id string, state plan.StepState, needs ...string) plan.StepRecord {
		return plan.StepRecord{ID: id, Title: "the step " + id, State: state, Needs: needs}
	}
	g := graphOf(plan.RunRecord{Steps: []plan.StepRecord{
		step("machine/cp-1", plan.Succeeded), step("machine/w-1", plan.Failed, "machine/gone"), step("configure/cp-1", plan.Running, "machine/cp-1"),
		step("api", plan.Pending, "configure/cp-1", "machine/cp-1"), step("node/w-1-with-a-long-name", plan.Skipped, "machine/w-1", "api"),
	}})
	var rows []string
	for _, b := range g.Boxes {
		row, column := (b.Y-8)/(boxHeight+rowGap), (b.X-8)/(boxWidth+boxGap)
		rows = append(rows, fmt.Sprintf("%d %d %s %s %s", row, column, b.Name, b.Class, b.Under))
	}
	want := []string{
		"0 0 machine/cp-1 ok succeeded", "0 1 machine/w-1 bad failed", "1 0 configure/cp-1 going running", "2 0 api waits pending", "3 0 node/w-1-wi…-a-long-name waits skipped",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	// The API waits for cp-1's machine through its configuration: a wire of its own would be redundant.
	at := func(name string) (b box) {
		for _, b := range g.Boxes {
			if strings.HasPrefix(b.Hover, name+"\n") {
				return b
			}
		}
		t.Fatalf("there is no %s", name)
		return b
	}
	var wires [][4]int
	for _, w := range [][2]string{{"machine/cp-1", "configure/cp-1"}, {"configure/cp-1", "api"}, {"machine/w-1", "node/w-1-with-a-long-name"}, {"api", "node/w-1-with-a-long-name"}} {
		from, to := at(w[0]), at(w[1])
		wires = append(wires, [4]int{from.X + boxWidth/2, from.Y + boxHeight, to.X + boxWidth/2, to.Y})
	}
	if diff := cmp.Diff(wires, g.Wires); diff != "" {
		t.Error(diff)
	}
	for _, b := range g.Boxes {
		if b.X+boxWidth > g.Width || b.Y+boxHeight > g.Height {
			t.Errorf("%s is outside of the picture", b.Name)
		}
	}
	if graphOf(plan.RunRecord{Steps: make([]plan.StepRecord, 1)}) != nil || graphOf(plan.RunRecord{Steps: make([]plan.StepRecord, mostDrawn+1)}) != nil {
		t.Error("a graph of one step, or of too many, is drawn")
	}
}
