package adopt

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Report is a draft for programs.
type Report struct {
	Adoptable bool              `json:"adoptable"`          // nothing blocks
	Document  *v1alpha1.Cluster `json:"document,omitempty"` // with defaults; absent if the cluster can't be described
	Gaps      []Gap             `json:"gaps"`               // differences from a cluster made by naupegos, the worst last
}

// Report returns the draft for programs.
func (d *Draft) Report() Report {
	return Report{Adoptable: len(d.Of(Blocks)) == 0, Document: d.doc, Gaps: d.Gaps}
}

// Lost lists the settings that the first apply removes, one per line.
func (d *Draft) Lost() (lines []string) {
	for _, g := range d.Of(Lost) {
		g = g.plain()
		if len(g.Details) == 0 {
			lines = append(lines, g.Where+": "+g.What)
		}
		for _, detail := range g.Details {
			component, _, _ := strings.Cut(g.What, ":")
			lines = append(lines, g.Where+": "+component+": "+detail)
		}
	}
	return lines
}

// Write writes the document for people, below comments about the differences from a cluster made by naupegos.
func (d *Draft) Write(w io.Writer) error {
	var b bytes.Buffer
	if len(d.Document) == 0 {
		fmt.Fprintf(&b, "# No document describes this cluster:\n#\n")
	} else {
		fmt.Fprintf(&b, "# This document describes a cluster that kubeadm has made. Where that differs from what naupegos would have made:\n#\n")
	}
	for _, g := range d.Gaps {
		g = g.plain()
		fmt.Fprintf(&b, "# %-8s %s: %s\n", g.Kind, g.Where, g.What)
		for _, detail := range g.Details {
			fmt.Fprintf(&b, "#            %s\n", detail)
		}
		if g.Restarts != "" {
			fmt.Fprintf(&b, "#          restarts: %s\n", g.Restarts)
		}
		if g.Do != "" {
			fmt.Fprintf(&b, "#          to do: %s\n", g.Do)
		}
	}
	if blocks := len(d.Of(Blocks)); blocks > 0 {
		fmt.Fprintf(&b, "#\n# It can't be taken over as it is: see what blocks above.\n")
	} else {
		fmt.Fprintf(&b, "#\n# It can be taken over: the same command with --adopt. Nothing that runs is changed by that.\n")
	}
	b.Write(d.Document)
	_, err := w.Write(b.Bytes())
	return err
}

// plain returns the gap in a form that neither a terminal nor the document below takes for something else: its texts are a stranger's.
func (g Gap) plain() Gap {
	g.Where, g.What, g.Restarts, g.Do, g.Details = words.Cell(g.Where), words.Cell(g.What), words.Cell(g.Restarts), words.Cell(g.Do), slices.Clone(g.Details)
	for i, detail := range g.Details {
		g.Details[i] = words.Cell(strings.ReplaceAll(detail, "\n", " "))
	}
	return g
}
