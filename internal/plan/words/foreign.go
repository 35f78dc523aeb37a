package words

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// obeyed reports whether a character controls a terminal or misleads a reader: control characters, and characters that reorder or hide text.
func obeyed(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r >= 0x2060 && r <= 0x2064
}

// Text makes untrusted text of several lines safe for a terminal: it drops escape sequences, control characters and characters that reorder text.
// Lines and tabs stay.
func Text(s string) string {
	if plain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if obeyed(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, ansi.Strip(s))
}

// Line makes untrusted text (a status, an error) fit on one line, without escape sequences and control characters.
func Line(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case obeyed(r):
			return -1
		}
		return r
	}, ansi.Strip(s))
	return strings.Join(strings.Fields(s), " ")
}

// Lines applies Line to each line of s and drops empty lines.
func Lines(s string) []string {
	var out []string
	for l := range strings.Lines(s) {
		if l = Line(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// Cell makes untrusted text fit into one cell of a table or one field of a record, and shows control characters: ESC becomes ␛, a newline ␤, and a
// character that reorders text its number.
func Cell(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case !obeyed(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteRune('␤')
		case r < 0x20:
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('␡')
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

// Clip is Cell, truncated to a number of bytes.
func Clip(s string, most int) string {
	if len(s) > 4*most { // it reads no further
		s = s[:4*most]
	}
	if s = Cell(s); len(s) <= most {
		return s
	}
	s = s[:most-len("…")]
	for !utf8.ValidString(s) { // Cell has left valid text: only its last character is cut
		s = s[:len(s)-1]
	}
	return s + "…"
}

// plain reports whether text has only printable ASCII, like nearly all text.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
