// Package charts draws a cluster's figures: as lines for SVG, and as rows of text with the same values.
//
// The server draws them, so that pages need neither a library nor a script, and a theme is a matter of the style sheet. The package knows no templates.
package charts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// The drawing's size, and the room for values at the left and for times below. Scripts read values off the lines by them.
const (
	Width  = 426 // 6 for each step of a range, so that most places are whole numbers
	Height = 170
	Left   = 58
	Top    = 8
	Right  = Width - 8
	Bottom = Height - 22
)

// most is the number of lines in a chart: more can't be told apart.
const most = 6

// Chart is a drawn figure.
type Chart struct {
	ID, Title string
	About     string // the figure in words, for readers who do not see the drawing
	Unit      string
	Max       float64 // value at the top of the drawing
	From, To  int64   // times of the first and of the last value
	Points    int     // values after the first one
	Lines     []Line
	Levels    []Mark // values at the left
	Times     []Mark // times below
	Rows      []Row  // the lines in words
	Note      string // figures that are left out, and why
}

// Line is a series as an SVG path. It is one of most colours.
type Line struct {
	Colour int
	Path   string
}

// Mark is a text at a place of an axis.
type Mark struct {
	At   int
	Text string
}

// Row is a series in words.
type Row struct {
	Colour           int
	Name             string
	Last, Least, Top string
}

// Group is a group of charts.
type Group struct {
	Title  string
	Charts []Chart
}

// Of draws all figures.
func Of(f *figures.Figures) (all []Group) {
	for i := range f.Charts {
		c := &f.Charts[i]
		if len(all) == 0 || all[len(all)-1].Title != c.Group {
			all = append(all, Group{Title: c.Group})
		}
		g := &all[len(all)-1]
		g.Charts = append(g.Charts, draw(f, c))
	}
	return all
}

// draw draws one figure.
func draw(f *figures.Figures, c *figures.Chart) Chart {
	d := Chart{ID: c.ID, Title: c.Title, Unit: string(c.Unit), From: f.From.Unix(), To: f.To.Unix(), Points: int(f.To.Sub(f.From).Seconds()) / max(1, f.Step)}
	shown, omitted := highest(c.Series)
	top := 0.0
	for _, s := range shown {
		_, high := s.Bounds()
		top = max(top, high)
	}
	d.Max = ceiling(c.Unit, top, slices.Contains([]string{"cpu", "memory", "disk"}, c.ID))
	for i := 0; i <= 2; i++ {
		d.Levels = append(d.Levels, Mark{Bottom - (Bottom-Top)*i/2, Text(c.Unit, d.Max*float64(i)/2)})
	}
	d.Times = times(f)
	for i, s := range shown {
		least, high := s.Bounds()
		last := "–"
		if v, ok := s.Last(); ok {
			last = Text(c.Unit, v)
		}
		d.Lines = append(d.Lines, Line{i, path(s.Values, d.Max)})
		d.Rows = append(d.Rows, Row{i, s.Name, last, Text(c.Unit, least), Text(c.Unit, high)})
	}
	switch {
	case c.Problem != "":
		d.Note = "Prometheus does not answer this query: " + c.Problem
	case len(shown) == 0 && c.Needs != "":
		d.Note = "Prometheus has no values. The addon " + c.Needs + " measures them."
	case len(shown) == 0:
		d.Note = "Prometheus has no values of this time."
	case omitted > 0:
		more := ""
		if c.More {
			more = "more than "
		}
		d.Note = fmt.Sprintf("Only the highest are drawn; %s%s lower.", more, words.Count(omitted, "other is", "others are"))
	}
	d.About = about(&d)
	return d
}

// highest returns the series with the highest values, in their former order, and the number of the others.
func highest(all []figures.Series) (shown []figures.Series, omitted int) {
	if len(all) <= most {
		return all, 0
	}
	order := make([]int, len(all))
	highs := make([]float64, len(all))
	for i := range all {
		order[i] = i
		_, highs[i] = all[i].Bounds()
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case highs[a] > highs[b]:
			return -1
		case highs[a] < highs[b]:
			return 1
		}
		return 0
	})
	order = order[:most]
	slices.Sort(order)
	for _, i := range order {
		shown = append(shown, all[i])
	}
	return shown, len(all) - most
}

// ceiling returns the value at the top of a drawing: a round one that is not below any value.
func ceiling(unit figures.Unit, top float64, whole bool) float64 {
	switch {
	case whole && top <= 1:
		return 1 // a share is seen best in comparison with the whole
	case top <= 0 && unit == figures.Ratio:
		return 0.01
	case top <= 0 && unit == figures.Seconds:
		return 0.001
	case top <= 0:
		return 1
	}
	if unit == figures.Bytes { // sizes of databases are powers of two
		return min(math.Pow(2, math.Ceil(math.Log2(top))), math.MaxFloat64)
	}
	power := math.Pow(10, math.Floor(math.Log10(top)))
	if power == 0 { // too small a number
		return 1
	}
	for _, n := range []float64{1, 2, 4, 5, 6, 8} {
		if top <= n*power {
			return n * power
		}
	}
	return 10 * power
}

// path returns the line of values. It is interrupted where they are unknown.
func path(values []*float64, top float64) string {
	var b strings.Builder
	down := false
	for i, v := range values {
		if v == nil {
			down = false
			continue
		}
		command := "L"
		if !down {
			command = "M"
			if i+1 == len(values) || values[i+1] == nil { // a point
				command = fmt.Sprintf("M%s,%sL", coordinate(X(i, len(values))), coordinate(Y(*v, top)))
			}
		}
		down = true
		b.WriteString(command + coordinate(X(i, len(values))) + "," + coordinate(Y(*v, top)))
	}
	return b.String()
}

// X returns the place of the i-th of n values.
func X(i, n int) float64 { return Left + float64(Right-Left)*float64(i)/float64(max(1, n-1)) }

// Y returns the place of a value.
func Y(v, top float64) float64 { return Bottom - float64(Bottom-Top)*min(max(v/top, 0), 1) }

func coordinate(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") }

// times returns the texts below a drawing, in UTC.
func times(f *figures.Figures) (all []Mark) {
	form := "15:04"
	if f.To.Sub(f.From) > 48*time.Hour {
		form = "2 Jan"
	}
	const parts = 4
	for i := range parts + 1 {
		at := f.From.Add(f.To.Sub(f.From) * time.Duration(i) / parts)
		all = append(all, Mark{Left + (Right-Left)*i/parts, at.UTC().Format(form)})
	}
	return all
}

// about describes a drawing in words.
func about(d *Chart) string {
	if len(d.Rows) == 0 {
		return d.Title + ": no values."
	}
	var all []string
	for _, r := range d.Rows {
		all = append(all, fmt.Sprintf("%s: now %s, between %s and %s", r.Name, r.Last, r.Least, r.Top))
	}
	return d.Title + ". " + strings.Join(all, "; ") + "."
}

// Text formats a value.
func Text(unit figures.Unit, v float64) string {
	switch unit {
	case figures.Ratio:
		if v < 0.1 && v != 0 {
			return fmt.Sprintf("%.2g %%", 100*v)
		}
		return fmt.Sprintf("%.0f %%", 100*v)
	case figures.Bytes:
		return scaled(v, 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB")
	case figures.ByteRate:
		return scaled(v, 1000, "B/s", "kB/s", "MB/s", "GB/s", "TB/s")
	case figures.Requests:
		return scaled(v, 1000, "/s", "k/s", "M/s")
	case figures.Seconds:
		switch {
		case v == 0:
			return "0 s"
		case v < 1:
			return number(1000*v) + " ms"
		}
		return number(v) + " s"
	}
	return number(v)
}

func scaled(v, k float64, units ...string) string {
	i := 0
	for v >= k && i < len(units)-1 {
		v, i = v/k, i+1
	}
	return number(v) + " " + units[i]
}

// number formats a number with three digits.
func number(v float64) string {
	if v >= 1000 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// Machine is a machine's newest figures.
type Machine struct {
	Name  string
	Cells []Cell
}

// Cell is one figure of a machine: the newest value and the highest.
type Cell struct{ Title, Last, Top string }

// Machines lists the machines that any figure of them names.
func Machines(f *figures.Figures) (all []Machine) {
	at := map[string]int{}
	columns := 0
	for i := range f.Charts {
		c := &f.Charts[i]
		if c.Group != figures.GroupMachines {
			continue
		}
		for _, s := range c.Series {
			n, known := at[s.Name]
			if !known {
				n = len(all)
				at[s.Name], all = n, append(all, Machine{Name: s.Name})
			}
			for len(all[n].Cells) < columns {
				all[n].Cells = append(all[n].Cells, Cell{})
			}
			_, top := s.Bounds()
			cell := Cell{Title: c.Title, Last: "–", Top: Text(c.Unit, top)}
			if v, ok := s.Last(); ok {
				cell.Last = Text(c.Unit, v)
			}
			all[n].Cells = append(all[n].Cells, cell)
		}
		columns++
	}
	for i := range all {
		for len(all[i].Cells) < columns {
			all[i].Cells = append(all[i].Cells, Cell{})
		}
	}
	return all
}

// Span names a time range with its end, as the pages name times.
func Span(f *figures.Figures) string {
	for _, r := range figures.Ranges() {
		if r.Name == f.Range {
			return fmt.Sprintf("The %s, until %s UTC, a value every %s", r.Text, f.To.Format("2006-01-02 15:04"), minutes(r.Step()))
		}
	}
	return ""
}

// minutes names a duration of whole minutes.
func minutes(d time.Duration) string {
	switch h, m := int(d.Hours()), int(d.Minutes())%60; {
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m == 1:
		return "minute"
	default:
		return fmt.Sprintf("%d minutes", m)
	}
}
