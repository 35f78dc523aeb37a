package show

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Group is a part of a plan under one heading: the steps of one subject, or equal steps of several machines.
type Group struct {
	Title string // "cluster", "demo-cp-1", or "7 machines: demo-cp-1, …"
	Items []Item
}

// Item is one step, or several equal ones on different machines.
type Item struct {
	Step  *plan.Step // the first one
	Title string
	Lines []Line // what changes
}

// Mark returns the item's mark.
func (i Item) Mark() string { mark, _ := look(i.Step.Action); return mark }

// Line is one thing that an item changes.
type Line struct {
	Text     string
	Mark     string    // "+", "~" or "-"; empty: a detail without a delta
	Variants []Variant // the changed lines; more than one variant if machines differ
}

// Variant holds the changed lines of a file on some machines.
type Variant struct {
	On    string // the machines; empty: all machines of the item
	Hunks []delta.Hunk
	Cut   int
}

// Groups arranges a plan for people: equal steps on several machines become one item, in the order of first appearance.
func Groups(p *plan.Plan) (groups []Group) {
	alike := map[string][]*plan.Step{}
	for _, s := range p.Steps {
		alike[key(s)] = append(alike[key(s)], s)
	}
	at, done := map[string]int{}, map[string]bool{}
	for _, s := range p.Steps {
		same := alike[key(s)]
		if done[key(s)] {
			continue
		}
		heading, title := words.Line(s.Subject), words.Line(s.Title)
		if len(same) > 1 {
			done[key(s)] = true
			title = common(same)
			heading = fmt.Sprintf("%d machines: %s", len(same), words.First(subjectsOf(same), 10))
		} else {
			same = []*plan.Step{s}
		}
		i, there := at[heading]
		if !there {
			i = len(groups)
			at[heading] = i
			groups = append(groups, Group{Title: heading})
		}
		groups[i].Items = append(groups[i].Items, Item{Step: s, Title: title, Lines: linesOf(same)})
	}
	return groups
}

// key is equal for steps that differ only in their machine: "configure gateway" and "configure worker" are two things to do. The changed lines of files may differ, too: Variants show them.
func key(s *plan.Step) string {
	if s.Subject == "cluster" {
		return s.ID
	}
	parts := []string{strings.Replace(s.ID, s.Subject, "", 1), strings.ReplaceAll(s.Title, s.Subject, ""), string(s.Action), string(s.Stage), s.Reason, s.Consent, string(s.Disruption()), strings.Join(s.Details, "\n")}
	if s.Consent != "" { // the user consents to each separately
		parts = append(parts, s.Subject)
	}
	for i := range s.Deltas {
		d := &s.Deltas[i]
		if parts = append(parts, d.Detail()); d.ByHand {
			parts = append(parts, d.Modified.String())
		}
	}
	return strings.Join(parts, "\x00")
}

func subjectsOf(steps []*plan.Step) (out []string) {
	for _, s := range steps {
		out = append(out, words.Line(s.Subject))
	}
	return out
}

// common returns the title of several steps: the words that all of them begin and end with. The heading names the machines.
func common(steps []*plan.Step) string {
	var titles [][]string
	for _, s := range steps {
		titles = append(titles, strings.Fields(words.Line(s.Title)))
	}
	begin, end := titles[0], titles[0]
	for _, t := range titles[1:] {
		n := 0
		for n < len(begin) && n < len(t) && begin[n] == t[n] {
			n++
		}
		m := 0
		for m < len(end) && m < len(t) && end[len(end)-1-m] == t[len(t)-1-m] {
			m++
		}
		begin, end = begin[:n], end[len(end)-m:]
	}
	if len(end) > 0 || len(begin) == 0 {
		begin = append(slices.Clone(begin), "…")
	}
	return strings.Join(slices.Concat(begin, end), " ")
}

// linesOf lists the changes of equal steps. A detail that has a delta is replaced by the delta's line.
func linesOf(steps []*plan.Step) (all []Line) {
	first := steps[0]
	told := map[string]bool{}
	byDetail := map[string]int{}
	for i := range first.Deltas {
		byDetail[first.Deltas[i].Detail()] = i
	}
	for _, detail := range first.Details {
		i, ok := byDetail[detail]
		if !ok {
			all = append(all, Line{Text: words.Line(detail)})
			continue
		}
		told[detail] = true
		all = append(all, lineOf(steps, i))
	}
	for i := range first.Deltas {
		if !told[first.Deltas[i].Detail()] {
			all = append(all, lineOf(steps, i))
		}
	}
	return all
}

// lineOf returns the line for the i-th delta of equal steps.
func lineOf(steps []*plan.Step, i int) Line {
	d := &steps[0].Deltas[i]
	l := Line{Text: words.Line(d.Line()), Mark: markOf(d.Action)}
	var on [][]string
	for _, s := range steps {
		o := &s.Deltas[i]
		at := slices.IndexFunc(l.Variants, func(v Variant) bool {
			return v.Cut == o.Cut && (&delta.Delta{Hunks: v.Hunks}).Same(&delta.Delta{Hunks: o.Hunks})
		})
		if at < 0 {
			at = len(l.Variants)
			l.Variants, on = append(l.Variants, Variant{Hunks: o.Hunks, Cut: o.Cut}), append(on, nil)
		}
		on[at] = append(on[at], words.Line(s.Subject))
	}
	for i := range l.Variants {
		l.Variants[i].Hunks = SafeHunks(l.Variants[i].Hunks)
	}
	if len(l.Variants) == 1 {
		if len(d.Hunks) == 0 {
			l.Variants = nil
		}
		return l
	}
	l.Text = words.Line(d.Detail())
	for i := range l.Variants {
		l.Variants[i].On = words.First(on[i], 10)
	}
	return l
}

// SafeHunks returns hunks without escape sequences and characters that reorder text, which terminals and browsers would interpret.
func SafeHunks(hunks []delta.Hunk) []delta.Hunk {
	out := slices.Clone(hunks)
	for i := range out {
		out[i].Lines = slices.Clone(out[i].Lines)
		for j, l := range out[i].Lines {
			out[i].Lines[j] = words.Text(l)
		}
	}
	return out
}

func markOf(action string) string {
	switch action {
	case "create", "install", "enable", "start":
		return "+"
	case "remove", "stop", "disable":
		return "-"
	}
	return "~"
}
