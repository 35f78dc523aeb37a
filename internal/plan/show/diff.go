package show

import (
	"bufio"
	"fmt"
	"io"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Different returns the steps that describe a difference: steps with deltas and, for subjects without deltas, steps that do more than wait.
func Different(p *plan.Plan) (steps []*plan.Step) {
	shown := map[string]bool{} // subjects whose differences are known; their other steps follow from these
	for _, s := range p.Steps {
		shown[s.Subject] = shown[s.Subject] || len(s.Deltas) > 0 && s.Subject != "cluster"
	}
	for _, s := range p.Steps {
		if len(s.Deltas) > 0 || !shown[s.Subject] && s.Action != plan.Wait {
			steps = append(steps, s)
		}
	}
	return steps
}

// WriteDiff prints only the differences that a plan removes: those of the document, then those of each machine, with equal ones together.
func WriteDiff(w io.Writer, p *plan.Plan, as Look) error {
	b := bufio.NewWriter(w)
	t := &textWriter{w: b, Look: as}
	if len(p.Document) > 0 {
		t.heading("document", "it differs from the one that was applied last")
		for i := range p.Document {
			t.line(lineOf([]*plan.Step{{Deltas: p.Document}}, i), "  ")
		}
	}
	for _, g := range Groups(&plan.Plan{Cluster: p.Cluster, Steps: Different(p)}) {
		t.heading(g.Title, "")
		for _, i := range g.Items {
			if len(i.Step.Deltas) == 0 {
				mark, color := look(i.Step.Action)
				fmt.Fprintln(b, "  "+paint(as.Color, color, mark)+" "+i.Title+paint(as.Color, faint, because(i.Step)))
			}
			for _, l := range i.Lines {
				t.line(l, "  ")
			}
		}
	}
	return b.Flush()
}

func because(s *plan.Step) string {
	if s.Reason == "" {
		return ""
	}
	return "  (" + words.Line(s.Reason) + ")"
}

func (t *textWriter) heading(title, note string) {
	if note != "" {
		note = "  (" + note + ")"
	}
	fmt.Fprintln(t.w, paint(t.Color, bold, title)+paint(t.Color, faint, note))
}
