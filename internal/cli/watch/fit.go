// Package watch shows clusters to people: their state, the facts about each part, and their events.
//
// It renders other packages' observations, and decides nothing.
package watch

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// Screen describes the terminal or file that receives the output.
type Screen struct {
	Width int  // columns
	Color bool // use colours
}

// The colours in use, as ANSI sequences.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	faint  = "\x1b[2m"
	reset  = "\x1b[0m"
)

// paint colours text; an empty colour leaves it unchanged.
func (s Screen) paint(color, text string) string {
	if !s.Color || color == "" || text == "" {
		return text
	}
	return color + text + reset
}

// column is a column of a table.
type column struct {
	head string
	keep int                      // on a narrow screen, columns with the lowest number are dropped first; 0: never
	tint func(cell string) string // colour of a cell; nil: none
}

// gap separates columns.
const gap = "  "

// table writes rows in aligned columns. On a narrow screen it drops columns, and then wraps cells that still do not fit, at words.
// Cells may hold foreign text, which can't control the terminal.
func (s Screen) table(w io.Writer, columns []column, rows [][]string) error {
	for _, row := range rows {
		for i := range row {
			if row[i] = words.Cell(row[i]); row[i] == "" {
				row[i] = "-"
			}
		}
	}
	shown := make([]int, len(columns))
	for i := range columns {
		shown[i] = i
	}
	width := func(i int) int {
		n := ansi.StringWidth(columns[i].head)
		for _, row := range rows {
			n = max(n, ansi.StringWidth(row[i]))
		}
		return n
	}
	flexible := func(i int) int { return min(width(i), max(longest(i, columns, rows), comfortable)) }
	for total(shown, flexible) > s.Width {
		least := -1
		for at, i := range shown {
			if columns[i].keep > 0 && (least < 0 || columns[i].keep < columns[shown[least]].keep) {
				least = at
			}
		}
		if least < 0 {
			break
		}
		shown = slices.Delete(shown, least, least+1)
	}
	widths := s.widths(shown, width, flexible, func(i int) int { return longest(i, columns, rows) })
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.head
	}
	for n, row := range append([][]string{heads}, rows...) {
		for _, line := range lay(row, shown, widths, func(i int, text string) string {
			if n == 0 || columns[i].tint == nil {
				return text
			}
			return s.paint(columns[i].tint(row[i]), text)
		}) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// total returns how many columns of the screen a row takes.
func total(shown []int, width func(int) int) int {
	n := len(gap) * (len(shown) - 1)
	for _, i := range shown {
		n += width(i)
	}
	return n
}

// comfortable is the width down to which columns wrap before other columns are dropped.
const comfortable = 20

// longest returns the width of a column's longest word.
func longest(i int, columns []column, rows [][]string) int {
	n := ansi.StringWidth(columns[i].head)
	for _, row := range rows {
		for _, word := range strings.Fields(row[i]) {
			n = max(n, ansi.StringWidth(word))
		}
	}
	return n
}

// widths returns the columns' widths. If a row is too wide, the columns with the most room wrap, first down to a comfortable width and then to
// their longest words.
func (s Screen) widths(shown []int, width func(int) int, floors ...func(int) int) map[int]int {
	out := map[int]int{}
	for _, i := range shown {
		out[i] = width(i)
	}
	for _, floor := range floors {
		for over := total(shown, func(i int) int { return out[i] }) - s.Width; over > 0; {
			widest, room := -1, 0
			for _, i := range shown {
				if r := out[i] - floor(i); r > room {
					widest, room = i, r
				}
			}
			if widest < 0 {
				break
			}
			cut := min(over, room)
			out[widest] -= cut
			over -= cut
		}
	}
	return out
}

// lay renders one row, as one or more lines.
func lay(row []string, shown []int, widths map[int]int, paint func(int, string) string) (lines []string) {
	cells := map[int][]string{}
	most := 0
	for _, i := range shown {
		cells[i] = wrap(row[i], widths[i])
		most = max(most, len(cells[i]))
	}
	for n := range most {
		var b strings.Builder
		pad := 0
		for at, i := range shown {
			if at > 0 {
				pad += len(gap)
			}
			text := ""
			if n < len(cells[i]) {
				text = cells[i][n]
			}
			if text != "" {
				b.WriteString(strings.Repeat(" ", pad) + paint(i, text))
				pad = 0
			}
			pad += widths[i] - ansi.StringWidth(text)
		}
		lines = append(lines, b.String())
	}
	return lines
}

// wrap breaks text at words into lines of at most width columns. A longer word stays whole.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// paragraph writes text wrapped at words, after first; rest indents the further lines.
func (s Screen) paragraph(w io.Writer, first, rest, text string) error {
	indent := max(ansi.StringWidth(first), ansi.StringWidth(rest))
	for i, line := range wrap(text, max(s.Width-indent, 20)) {
		before := rest
		if i == 0 {
			before = first
		}
		if _, err := fmt.Fprintf(w, "%s%s\n", before, line); err != nil {
			return err
		}
	}
	return nil
}

// fact is a labelled line.
type fact struct{ label, text string }

// facts writes labelled lines, aligned; it omits facts without text.
func (s Screen) facts(w io.Writer, indent string, all []fact) error {
	label := 0
	for _, f := range all {
		if f.text != "" {
			label = max(label, ansi.StringWidth(f.label))
		}
	}
	for _, f := range all {
		if f.text == "" {
			continue
		}
		first := indent + f.label + strings.Repeat(" ", label-ansi.StringWidth(f.label)+2)
		if err := s.paragraph(w, first, strings.Repeat(" ", ansi.StringWidth(first)), words.Line(f.text)); err != nil {
			return err
		}
	}
	return nil
}

// clean makes foreign text safe and fit for one line of a terminal.
func clean(s string) string { return words.Line(s) }
