package web

import (
	"maps"

	"github.com/naupegos/naupegos/internal/plan"
)

// mostDrawn is the maximum number of steps in a graph; larger graphs are unreadable.
const mostDrawn = 400

// graphOf draws the steps of a run by their dependencies: each step below all its needs, coloured by its state. It returns nil if there is only
// one step, or too many.
func graphOf(run plan.RunRecord) *topology {
	if len(run.Steps) < 2 || len(run.Steps) > mostDrawn {
		return nil
	}
	t, at, before := &topology{}, map[string]box{}, map[string]map[string]bool{} // before: all direct and indirect needs of a step
	depth, inRow := map[string]int{}, map[int]int{}
	for _, s := range run.Steps { // in the plan's order, a step's needs come before it
		before[s.ID] = map[string]bool{}
		for _, n := range s.Needs {
			if _, known := before[n]; !known || n == s.ID {
				continue
			}
			depth[s.ID] = max(depth[s.ID], depth[n]+1)
			before[s.ID][n] = true
			maps.Copy(before[s.ID], before[n])
		}
		row := depth[s.ID]
		b := box{Name: short(s.ID), Under: string(s.State), Class: stepClass(s.State), Hover: s.ID + "\n" + s.Title + "\n" + string(s.State),
			X: 8 + inRow[row]*(boxWidth+boxGap), Y: 8 + row*(boxHeight+rowGap)}
		inRow[row]++
		for _, n := range s.Needs {
			if from, known := at[n]; known && !through(n, s.Needs, before) {
				t.Wires = append(t.Wires, [4]int{from.X + boxWidth/2, from.Y + boxHeight, b.X + boxWidth/2, b.Y})
			}
		}
		at[s.ID] = b
		t.Boxes = append(t.Boxes, b)
		t.Width, t.Height = max(t.Width, b.X+boxWidth+8), max(t.Height, b.Y+boxHeight+8)
	}
	return t
}

// planned returns the record of a run that has not begun, for a plan.
func planned(p *plan.Plan) (run plan.RunRecord) {
	for _, s := range p.Steps {
		run.Steps = append(run.Steps, plan.StepRecord{ID: s.ID, Title: s.Title, Needs: s.Needs, State: plan.Pending})
	}
	return run
}

// through reports whether another need already depends on this one, so that a wire for it would be redundant.
func through(need string, needs []string, before map[string]map[string]bool) bool {
	for _, other := range needs {
		if other != need && before[other][need] {
			return true
		}
	}
	return false
}

// short shortens a step's ID to fit into a box.
func short(id string) string {
	const most = 24
	if r := []rune(id); len(r) > most { // IDs differ at their end
		return string(r[:(most-1)/2]) + "…" + string(r[len(r)-most/2:])
	}
	return id
}

// clip shortens a text to at most so many characters.
func clip(most int, s string) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// stepClass returns the style class of a step's box.
func stepClass(s plan.StepState) string {
	switch s {
	case plan.Succeeded:
		return "ok"
	case plan.Failed:
		return "bad"
	case plan.Stopped:
		return "warn"
	case plan.Running, plan.Retrying:
		return "going"
	}
	return "waits"
}
