package plan

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// actionLook is how an action is shown, in the order of the summary line.
var actionLook = []struct {
	action            Action
	mark, color, word string
}{
	{Create, "+", green, "to create"},
	{Change, "~", yellow, "to change"},
	{Replace, "-/+", yellow, "to replace"},
	{Destroy, "-", red, "to destroy"},
	{Wait, "…", cyan, "to wait for"},
}

func look(a Action) (mark, color string) {
	for _, l := range actionLook {
		if l.action == a {
			return l.mark, l.color
		}
	}
	return "?", reset
}

// Summary is the plan in one line: "Plan: 12 to create, 3 to change." or "No changes."
func (p *Plan) Summary() string {
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
func (p *Plan) disruptionWords() []string {
	if p.Disruption() == Final {
		return []string{"removes cluster " + p.Cluster + " and all its data."}
	}
	has := map[Disruption]bool{}
	var removed []string
	for _, s := range p.Steps {
		has[s.Disruption()] = true
		if s.Removes && !slices.Contains(removed, clean(s.Subject)) {
			removed = append(removed, clean(s.Subject))
		}
	}
	var words []string
	if has[Disruptive] {
		words = append(words, "disruptive; the steps marked above need a named consent.")
	}
	if len(removed) > 0 {
		words = append(words, "removes "+shorten(removed, 10)+" for good, with the data that is only there.")
	}
	if has[Rolling] {
		words = append(words, "rolling; what serves is restarted or replaced one by one.")
	}
	if len(words) == 0 {
		words = []string{"none; nothing that serves is restarted."}
	}
	return words
}

// WriteText prints the plan for people: grouped by subject in the order of first appearance, each step with its mark,
// title, reason and details, then the summary, and the warnings last. The error is that of w.
func (p *Plan) WriteText(w io.Writer, color bool) error {
	b := bufio.NewWriter(w)
	for _, subject := range p.subjects() {
		fmt.Fprintln(b, paint(color, bold, clean(subject)))
		for _, s := range p.Steps {
			if s.Subject == subject {
				writeStep(b, s, color)
			}
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b, paint(color, bold, p.Summary()))
	if !p.Empty() {
		for _, words := range p.disruptionWords() {
			fmt.Fprintln(b, "Disruption: "+words)
		}
	}
	if err := p.WriteWarnings(b, color); err != nil {
		return err
	}
	return b.Flush()
}

// WriteWarnings prints the warnings alone, each on a line of its own; nothing where there are none.
func (p *Plan) WriteWarnings(w io.Writer, color bool) error {
	for _, text := range p.Warnings {
		if _, err := fmt.Fprintln(w, paint(color, yellow, "Warning:")+" "+clean(text)); err != nil {
			return err
		}
	}
	return nil
}

func writeStep(w io.Writer, s *Step, color bool) {
	mark, c := look(s.Action)
	line := fmt.Sprintf("  %s %s", paint(color, c, fmt.Sprintf("%3s", mark)), clean(s.Title))
	if s.Reason != "" {
		line += paint(color, faint, "  ("+clean(s.Reason)+")")
	}
	fmt.Fprintln(w, line)
	for _, d := range s.Details {
		fmt.Fprintln(w, paint(color, faint, "        "+clean(d)))
	}
	if s.Consent != "" {
		fmt.Fprintln(w, "        "+paint(color, red, "needs --consent "+s.Consent))
	}
}

// subjects returns the steps' subjects in the order of first appearance.
func (p *Plan) subjects() []string {
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
