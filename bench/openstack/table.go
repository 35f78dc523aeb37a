package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// table prints results side by side.
func table(w io.Writer, results []result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\tcreate\t\tno change\t\tdestroy\t")
	fmt.Fprintln(t, "\tseconds\tAPI calls\tseconds\tAPI calls\tseconds\tAPI calls")
	for _, r := range results {
		fmt.Fprint(t, r.name)
		for _, p := range []phase{r.create, r.nothing, r.destroy} {
			fmt.Fprintf(t, "\t%.1f\t%d (%d reads)", p.took.Seconds(), p.calls, p.reads)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// ratios prints, for each phase, naupegos' time divided by the best time of the others. For creating, it also prints the services' own time
// divided by that of the others, and naupegos' time divided by the services' (the floor ratio).
func ratios(w io.Writer, n, least result, others []result) {
	if len(others) == 0 {
		return
	}
	for _, p := range []struct {
		name string
		of   func(result) phase
	}{
		{"create", func(r result) phase { return r.create }}, {"no-change", func(r result) phase { return r.nothing }},
		{"destroy", func(r result) phase { return r.destroy }},
	} {
		best := slices.MinFunc(others, func(a, b result) int { return int(p.of(a).took - p.of(b).took) })
		fmt.Fprintf(w, "%s ratio: %.2f\n", p.name, p.of(n).took.Seconds()/p.of(best).took.Seconds())
		if p.name == "create" {
			fmt.Fprintf(w, "  (%.2f for the services alone)\n", least.create.took.Seconds()/best.create.took.Seconds())
			floorRatio(w, n, least)
		}
	}
}

// floorRatio prints naupegos' time to create divided by the services' own.
func floorRatio(w io.Writer, n, least result) {
	fmt.Fprintf(w, "floor ratio: %.2f\n", n.create.took.Seconds()/least.create.took.Seconds())
}
