package tool

import "testing"

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain text, Zürich\n\tindented\n":         "plain text, Zürich\n\tindented\n",
		"\x1b[31mred\x1b[0m \x1b]0;title\x07after": "red after",
		"a\rb\x00c\x7fd\u009b2Je":                  "abcd2Je", // no terminal obeys that
		"\x1b[?25lhidden\x1b(B":                    "hidden",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
