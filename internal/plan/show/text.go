package show

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// actionLook is how an action is shown, in the order of the summary line.
var actionLook = []struct {
	action            plan.Action
	mark, color, word string
}{
	{plan.Create, "+", green, "to create"},
	{plan.Change, "~", yellow, "to change"},
	{plan.Replace, "-/+", yellow, "to replace"},
	{plan.Destroy, "-", red, "to destroy"},
	{plan.Wait, "…", cyan, "to wait for"},
}

func look(a plan.Action) (mark, color string) {
	for _, l := range actionLook {
		if l.action == a {
			return l.mark, l.color
		}
	}
	return "?", reset
}

// summary is the plan in one line: "Plan: 12 to create, 3 to change." or "No changes."
func summary(p *plan.Plan) string {
	if p.Empty() {
		return "No changes."
	}
	n := p.Counts()
	var parts []string
	for _, l := range actionLook {
		if n[l.action] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[l.action], l.word))
		}
	}
	return "Plan: " + strings.Join(parts, ", ") + "."
}

// disruptionWords say what the plan disturbs, one sentence for each class that is among its steps.
func disruptionWords(p *plan.Plan) []string {
	if p.Disruption() == plan.Final {
		return []string{"removes cluster " + p.Cluster + " and all its data."}
	}
	has, later := map[plan.Disruption]bool{}, map[plan.Disruption]bool{}
	var removed []string
	for _, s := range p.Steps {
		has[s.Disruption()], later[s.Announces] = true, true
		if s.Removes && !slices.Contains(removed, words.Line(s.Subject)) {
			removed = append(removed, words.Line(s.Subject))
		}
	}
	var sentences []string
	if has[plan.Disruptive] {
		sentences = append(sentences, "disruptive; the steps marked above need a named consent.")
	}
	if len(removed) > 0 {
		what := "removes " + words.First(removed, 10) + " permanently"
		if p.Verb == "reset" { // the machine itself stays
			what = "removes Kubernetes from " + words.First(removed, 10)
		}
		sentences = append(sentences, what+", with the data that is stored only there.")
	}
	switch {
	case has[plan.Rolling]:
		sentences = append(sentences, "rolling; what is in service is restarted or replaced in turn.")
	case later[plan.Rolling]:
		sentences = append(sentences, "rolling; what is in service is restarted in turn, in plans that follow this one.")
	}
	if len(sentences) == 0 {
		sentences = []string{"none; nothing in service is restarted."}
	}
	return sentences
}

// WriteText prints a plan for people: grouped by subject in the order of first appearance, each step with its mark,
// title, reason and details, then the summary, and the warnings last. The error is that of w.
func WriteText(w io.Writer, p *plan.Plan, color bool) error {
	b := bufio.NewWriter(w)
	for _, subject := range subjects(p) {
		fmt.Fprintln(b, paint(color, bold, words.Line(subject)))
		for _, s := range p.Steps {
			if s.Subject == subject {
				writeStep(b, s, color)
			}
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b, paint(color, bold, summary(p)))
	if !p.Empty() {
		for _, sentence := range disruptionWords(p) {
			fmt.Fprintln(b, "Disruption: "+sentence)
		}
	}
	for _, what := range p.LeftOut {
		fmt.Fprintln(b, "Left out: "+words.Line(what)+".")
	}
	if err := writeWarnings(b, p, color); err != nil {
		return err
	}
	return b.Flush()
}

// writeWarnings prints the warnings alone, each on a line of its own; nothing where there are none.
func writeWarnings(w io.Writer, p *plan.Plan, color bool) error {
	for _, text := range p.Warnings {
		if _, err := fmt.Fprintln(w, paint(color, yellow, "Warning:")+" "+words.Line(text)); err != nil {
			return err
		}
	}
	return nil
}

func writeStep(w io.Writer, s *plan.Step, color bool) {
	mark, c := look(s.Action)
	line := fmt.Sprintf("  %s %s", paint(color, c, fmt.Sprintf("%3s", mark)), words.Line(s.Title))
	if s.Reason != "" {
		line += paint(color, faint, "  ("+words.Line(s.Reason)+")")
	}
	fmt.Fprintln(w, line)
	for _, d := range s.Details {
		fmt.Fprintln(w, paint(color, faint, "        "+words.Line(d)))
	}
	if s.Consent != "" {
		fmt.Fprintln(w, "        "+paint(color, red, "needs --consent "+s.Consent))
	}
}

// subjects returns the steps' subjects in the order of first appearance.
func subjects(p *plan.Plan) []string {
	var list []string
	seen := map[string]bool{}
	for _, s := range p.Steps {
		if !seen[s.Subject] {
			seen[s.Subject] = true
			list = append(list, s.Subject)
		}
	}
	return list
}
