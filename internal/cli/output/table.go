package output

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// Table aligns columns. It is the only way to print some: what its cells hold may be somebody else's text, and reaches no terminal as it is.
type Table struct{ t *tabwriter.Writer }

// NewTable begins a table.
func NewTable(w io.Writer) *Table { return &Table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)} }

// Head writes a line as it is, with a tab between cells.
func (t *Table) Head(line string) { fmt.Fprintln(t.t, line) }

// Row writes what a format makes of cells. Tabs and lines of the format count, and those of a cell are shown. An empty cell is a dash.
func (t *Table) Row(format string, cells ...any) {
	for i, c := range cells {
		switch c := c.(type) {
		case nil, bool, int, int32, int64, uint, uint32, uint64, float64:
		case string:
			cells[i] = Dash(words.Cell(c))
		default:
			if text := fmt.Sprint(c); words.Cell(text) != text {
				cells[i] = words.Cell(text)
			}
		}
	}
	fmt.Fprintf(t.t, format, cells...)
}

// Flush writes the table.
func (t *Table) Flush() error { return t.t.Flush() }

// inert writes what JSON lets through and a terminal may obey as JSON's escapes, which say the same.
func inert(data []byte) []byte {
	if !bytes.ContainsFunc(data, hidden) {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// hidden reports whether a character within JSON has to be escaped. JSON itself escapes control characters of ASCII; lines are its layout.
func hidden(r rune) bool { return r != '\n' && r != '\t' && words.Cell(string(r)) != string(r) }
