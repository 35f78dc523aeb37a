package watch

import (
	"fmt"
	"io"
	"strings"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// Checks writes checks as a table of at most width columns, as far as words allow; 0: no limit.
func Checks(w io.Writer, checks []provider.Check, width int) error {
	t := output.NewTable(w)
	t.Head("CHECK\tRESULT\tDETAIL")
	count, name := map[provider.Result]int{}, len("CHECK")
	for _, c := range checks {
		name = max(name, len(c.Name))
	}
	for _, c := range checks {
		count[c.Result]++
		lines := []string{strings.ReplaceAll(c.Detail, "\n", " ")}
		if width > 0 {
			lines = words.Wrap(lines[0], max(width-name-len("  RESULT  "), 20))
		}
		t.Row("%s\t%s\t%s\n", c.Name, c.Result, lines[0])
		for _, line := range lines[1:] {
			t.Head("\t\t" + words.Cell(line))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %s, %s\n", count[provider.Fine], words.Count(count[provider.Warning], "warning", "warnings"), words.Count(count[provider.Failing], "failure", "failures"))
	return err
}
