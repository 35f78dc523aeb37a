package show

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// actionLook says how actions are shown, in the order of the summary line.
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

// Summary returns the plan in one line: "Plan: 12 to create, 3 to change, 0 to destroy; about 10 s by history." or "No changes."
func Summary(p *plan.Plan) string {
	if p.Empty() {
		return "No changes."
	}
	n := p.Counts()
	var parts []string
	for _, l := range actionLook {
		if n[l.action] > 0 || l.action == plan.Create || l.action == plan.Change || l.action == plan.Destroy {
			parts = append(parts, fmt.Sprintf("%d %s", n[l.action], l.word))
		}
	}
	line := "Plan: " + strings.Join(parts, ", ")
	if p.Estimate > 0 {
		line += "; about " + roughly(p.Estimate) + " by history"
	}
	return line + "."
}

// roughly rounds a duration to the accuracy of an estimate: seconds, then minutes.
func roughly(d time.Duration) string {
	if d < 90*time.Second {
		return fmt.Sprintf("%d s", max(1, int(d.Round(time.Second).Seconds())))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}

// disruptionWords describe what the plan disturbs, in one sentence for each class among its steps.
func disruptionWords(p *plan.Plan) []string {
	if p.Disruption() == plan.Final {
		return []string{"removes cluster " + p.Cluster + " and all its data."}
	}
	has, later := map[plan.Disruption]bool{}, map[plan.Disruption]bool{}
	var removed, replaced, dropped []string // removed machines, machines that stay but lose their data, and removed parts of the cluster
	for _, s := range p.Steps {
		has[s.Disruption()], later[s.Announces] = true, true
		list, what := &removed, s.Subject
		switch {
		case s.Action == plan.Change:
			list = &replaced
		case s.Subject == "cluster":
			list, what = &dropped, strings.TrimPrefix(s.Title, "remove ")
		}
		if s.Removes && !slices.Contains(*list, words.Line(what)) {
			*list = append(*list, words.Line(what))
		}
	}
	var sentences []string
	if has[plan.Disruptive] {
		sentences = append(sentences, "disruptive; the steps marked below need a named consent.")
	}
	if len(removed) > 0 {
		what := "removes " + words.First(removed, 10) + " permanently"
		if p.Verb == "reset" { // the machine itself is kept
			what = "removes Kubernetes from " + words.First(removed, 10)
		}
		sentences = append(sentences, what+", with the data that is stored only there.")
	}
	if len(dropped) > 0 {
		sentences = append(sentences, "removes "+words.First(dropped, 10)+" from the cluster; the steps below say what is lost with it.")
	}
	if len(replaced) > 0 {
		sentences = append(sentences, "replaces data on "+words.First(replaced, 10)+"; the steps below say what is lost.")
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

// Look says how a plan is shown.
type Look struct {
	Color bool
	Hunks bool // show the changed lines of files
}

// WriteText prints a plan for people: the summary, how the document differs from the stored one, the steps by machine, with equal ones together, and
// finally the warnings. It returns the error of w.
func WriteText(w io.Writer, p *plan.Plan, as Look) error {
	b := bufio.NewWriter(w)
	t := &textWriter{w: b, Look: as}
	t.head(p)
	if len(p.Document) > 0 {
		fmt.Fprintln(b, paint(as.Color, bold, "document"))
		for i := range p.Document {
			t.line(lineOf([]*plan.Step{{Deltas: p.Document}}, i), "    ")
		}
		fmt.Fprintln(b)
	}
	for _, g := range Groups(p) {
		fmt.Fprintln(b, paint(as.Color, bold, g.Title))
		for _, i := range g.Items {
			t.item(i)
		}
		fmt.Fprintln(b)
	}
	if t.hidden {
		fmt.Fprintln(b, "naupegos plan --diff shows the lines that change.")
	}
	if t.lines > page { // the summary has scrolled off the screen
		fmt.Fprintln(b, paint(as.Color, bold, Summary(p)))
	}
	if err := writeWarnings(b, p, as.Color); err != nil {
		return err
	}
	return b.Flush()
}

// page is the number of lines of steps that a small terminal shows.
const page = 20

// textWriter writes the parts of a plan.
type textWriter struct {
	Look
	w      io.Writer
	lines  int
	hidden bool // some hunks were not shown
}

// head writes the summary.
func (t *textWriter) head(p *plan.Plan) {
	fmt.Fprintln(t.w, paint(t.Color, bold, Summary(p)))
	for _, line := range Notes(p) {
		fmt.Fprintln(t.w, line)
	}
	if !p.Empty() || len(p.Document) > 0 {
		fmt.Fprintln(t.w)
	}
}

// Notes returns the lines below the summary: what the plan disturbs, and what it leaves out.
func Notes(p *plan.Plan) (lines []string) {
	if !p.Empty() {
		for _, sentence := range disruptionWords(p) {
			lines = append(lines, "Disruption: "+sentence)
		}
	}
	for _, what := range p.LeftOut {
		lines = append(lines, "Left out: "+words.Line(what)+".")
	}
	return lines
}

// item writes one step, or several equal ones.
func (t *textWriter) item(i Item) {
	mark, c := look(i.Step.Action)
	line := fmt.Sprintf("  %s %s", paint(t.Color, c, fmt.Sprintf("%3s", mark)), i.Title)
	if i.Step.Reason != "" {
		line += paint(t.Color, faint, "  ("+words.Line(i.Step.Reason)+")")
	}
	fmt.Fprintln(t.w, line)
	t.lines++
	for _, l := range i.Lines {
		t.line(l, "        ")
	}
	if i.Step.Consent != "" {
		fmt.Fprintln(t.w, "        "+paint(t.Color, red, "needs --consent "+i.Step.Consent))
	}
}

var markColor = map[string]string{"+": green, "~": yellow, "-": red}

// line writes one change and its hunks.
func (t *textWriter) line(l Line, indent string) {
	t.lines++
	text := paint(t.Color, faint, l.Text)
	if l.Mark != "" {
		text = paint(t.Color, markColor[l.Mark], l.Mark) + " " + l.Text
	}
	fmt.Fprintln(t.w, indent+text)
	if !t.Hunks {
		t.hidden = t.hidden || len(l.Variants) > 0
		return
	}
	for _, v := range l.Variants {
		if v.On != "" {
			fmt.Fprintln(t.w, indent+"  on "+v.On+":")
		}
		t.hunks(v, indent+"    ")
	}
}

func (t *textWriter) hunks(v Variant, indent string) {
	for _, h := range v.Hunks {
		fmt.Fprintln(t.w, indent+paint(t.Color, cyan, h.Header()))
		for _, line := range h.Lines {
			fmt.Fprintln(t.w, indent+paint(t.Color, markColor[line[:1]], line))
		}
	}
	if v.Cut > 0 {
		fmt.Fprintln(t.w, indent+"… and "+words.Count(v.Cut, "more line", "more lines"))
	}
}

// writeWarnings prints only the warnings, one per line.
func writeWarnings(w io.Writer, p *plan.Plan, color bool) error {
	for _, text := range p.Warnings {
		if _, err := fmt.Fprintln(w, paint(color, yellow, "Warning:")+" "+words.Line(text)); err != nil {
			return err
		}
	}
	return nil
}
