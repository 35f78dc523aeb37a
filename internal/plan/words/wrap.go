package words

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Wrap breaks text at words into lines of at most width columns. A longer word stays whole. Escape sequences have no width.
func Wrap(text string, width int) (lines []string) {
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
