package tool

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Printable removes from foreign text (a console, an error of a machine) what a terminal would obey: escape sequences and control
// characters. Lines and tabs stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, ansi.Strip(s))
}
