package show

import (
	"io"
	"os"

	"golang.org/x/term"
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

// paint wraps text in a colour if on is true.
func paint(on bool, color, text string) string {
	if !on || text == "" {
		return text
	}
	return color + text + reset
}

// WantColor reports whether colours should be written to w: w is a terminal, and NO_COLOR is not set.
func WantColor(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(w) }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
