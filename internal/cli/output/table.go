package output

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// Table aligns columns. All aligned output passes through it, because cells may hold foreign text, which must not reach a terminal unescaped.
type Table struct{ t *tabwriter.Writer }

// NewTable begins a table.
func NewTable(w io.Writer) *Table { return &Table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)} }

// Head writes a line unchanged, with a tab between cells.
func (t *Table) Head(line string) { fmt.Fprintln(t.t, line) }

// Row writes cells in a format. Tabs and newlines of the format separate cells and lines; in a cell they are escaped. An empty cell is a dash.
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

// inert replaces characters that JSON allows and a terminal may interpret by equivalent JSON escapes.
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

// hidden reports whether a character in JSON must be escaped. JSON itself escapes ASCII control characters; its newlines are layout.
func hidden(r rune) bool { return r != '\n' && r != '\t' && words.Cell(string(r)) != string(r) }
