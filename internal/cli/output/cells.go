package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/tool"
)

// Dash returns s, or a dash if it is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cellWidth is the maximum number of characters in a cell; a machine's error may have hundreds, in several lines.
const cellWidth = 48

// Footnotes are the texts that did not fit into a table's cells.
type Footnotes []string

// Cell returns text if it fits, else its beginning; the whole text becomes a footnote.
func (f *Footnotes) Cell(row, text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) <= cellWidth {
		return string(line)
	}
	if note := row + ": " + strings.ReplaceAll(strings.TrimSpace(tool.Printable(text)), "\n", "\n    "); !slices.Contains(*f, note) {
		*f = append(*f, note)
	}
	return string(line[:cellWidth-1]) + "…"
}

// Write puts the footnotes below the table.
func (f *Footnotes) Write(w io.Writer) error {
	for i, note := range *f {
		before := ""
		if i == 0 {
			before = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", before, note); err != nil {
			return err
		}
	}
	return nil
}
