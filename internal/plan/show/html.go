package show

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

//go:embed timeline.html.tmpl
var timelineHTML string

// Sizes of the picture, in SVG units.
const (
	labelWidth = 300
	chartWidth = 1000
	rowHeight  = 20
	topMargin  = 24
)

// picture is the template's input.
type picture struct {
	Title, Run, Holder, When string
	Width, Height            int
	Ticks                    []tickMark
	Rows                     []row
	NotStarted               []string
}

type tickMark struct {
	X    float64
	Text string
}

type row struct {
	Y            int
	Label, Hover string
	X, W         float64
	Class        string // state, and "critical" on the critical path
	Took         string
	TookX        float64
	TookEnd      bool // the text is to the left of the bar
	Retries      []retryMark
	Err          string
	ID, State    string
}

type retryMark struct {
	X     float64
	Y     int
	Hover string
}

// WriteHTML draws a run as a Gantt chart in a self-contained HTML page: no scripts, nothing loaded from elsewhere, light or dark by the reader's
// preference. The critical path is highlighted; hovering over a step shows its details.
func WriteHTML(w io.Writer, r plan.RunRecord) error { return writeTimeline(w, "page", r) }

// WritePicture draws the same as WriteHTML, as a part of another page whose style sheet must define the classes.
func WritePicture(w io.Writer, r plan.RunRecord) error { return writeTimeline(w, "picture", r) }

func writeTimeline(w io.Writer, part string, r plan.RunRecord) error {
	t, err := template.New("timeline").Parse(timelineHTML)
	if err != nil {
		return fmt.Errorf("parse the timeline's template: %w", err)
	}
	if err := t.ExecuteTemplate(w, part, run{&r}.picture()); err != nil {
		return fmt.Errorf("write the timeline: %w", err)
	}
	return nil
}

func (r run) picture() picture {
	steps := r.startedSteps()
	total := max(r.lastMoment().Sub(r.Started), time.Millisecond)
	x := func(t time.Time) float64 {
		return labelWidth + chartWidth*min(max(float64(t.Sub(r.Started))/float64(total), 0), 1)
	}
	p := picture{
		Title: r.headline(), Run: r.ID, Holder: cmp.Or(r.By, r.Holder), When: r.Started.UTC().Format("2006-01-02 15:04:05 UTC"),
		Width: labelWidth + chartWidth + 10, Height: topMargin + len(steps)*rowHeight + 6, Ticks: ticks(total),
	}
	critical := r.criticalPath()
	for i, s := range steps {
		p.Rows = append(p.Rows, r.row(s, topMargin+i*rowHeight, x, critical[s.ID]))
	}
	for i := range r.Steps {
		if r.Steps[i].Started.IsZero() {
			p.NotStarted = append(p.NotStarted, r.Steps[i].ID)
		}
	}
	return p
}

func (r run) row(s *plan.StepRecord, y int, x func(time.Time) float64, critical bool) row {
	from, to := x(s.Started), x(r.endOf(s))
	out := row{
		Y: y, Label: s.ID, X: from, W: max(to-from, 1.5), Class: string(s.State), Took: words.Duration(r.took(s)), TookX: to + 5,
		Err: s.Err, ID: s.ID, State: string(s.State),
	}
	if len([]rune(out.Label)) > 44 {
		out.Label = string([]rune(out.Label)[:43]) + "…"
	}
	if critical {
		out.Class += " critical"
	}
	if to > labelWidth+chartWidth-50 {
		out.TookX, out.TookEnd = from-5, true
	}
	hover := []string{s.ID + ": " + s.Title, fmt.Sprintf("%s in %s, from %s", s.State, out.Took, words.Duration(s.Started.Sub(r.Started)))}
	if s.Reason != "" {
		hover = append(hover, s.Reason)
	}
	if len(s.Needs) > 0 {
		hover = append(hover, "needs "+words.First(s.Needs, 8))
	}
	if s.Err != "" {
		hover = append(hover, s.Err)
	}
	out.Hover = strings.Join(hover, "\n")
	for _, re := range s.Retries {
		out.Retries = append(out.Retries, retryMark{x(re.At), y + rowHeight/2, "tried again after: " + re.Err})
	}
	return out
}

// ticks returns 5 to 10 marks at round times.
func ticks(total time.Duration) []tickMark {
	step := math.Pow(10, math.Floor(math.Log10(total.Seconds())))
	for total.Seconds()/step > 10 {
		step *= 2
	}
	for total.Seconds()/step < 5 {
		step /= 2
	}
	var marks []tickMark
	for i := 0; float64(i)*step <= total.Seconds(); i++ {
		at := float64(i) * step
		marks = append(marks, tickMark{labelWidth + chartWidth*at/total.Seconds(), fmt.Sprintf("%.3gs", at)})
	}
	return marks
}
