package local

import (
	"regexp"
	"strings"
)

var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[a-zA-Z]|[()][A-Z0-9]|[=>])`)

// printable removes terminal escapes and control characters from console text.
func printable(s string) string {
	s = escapes.ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
