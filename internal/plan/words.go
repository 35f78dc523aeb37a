package plan

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// The colours in use, as ANSI sequences.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	cyan   = "\x1b[36m"
	faint  = "\x1b[2m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

// paint puts text into a colour if on.
func paint(on bool, color, text string) string {
	if !on || text == "" {
		return text
	}
	return color + text + reset
}

// clean makes foreign text (a status, an error) fit to be shown on one line: no escape sequences, no control characters.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, ansi.Strip(s))
	return strings.Join(strings.Fields(s), " ")
}

// cleanLines is clean for each line of s; empty lines go.
func cleanLines(s string) []string {
	var out []string
	for l := range strings.Lines(s) {
		if l = clean(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// short renders a duration with the precision that people want: 0.3s, 12.3s, 4m05s, 1h02m.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0.0s"
	case d < 99*time.Second+950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}
