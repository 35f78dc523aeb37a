package words

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// orders are characters and sequences of untrusted text that must not reach a terminal.
var orders = []string{
	"\x1b]0;title\x07", "\x1b[2J", "\x1b[31m", "\x1b(B", "\x1bP+q\x1b\\", "\a", "\b", "\r", "\x00", "\x7f", "\u009b2J", "\u009d0;x\u009c",
	"\u202e", "\u202a", "\u2066", "\u2069", "\u200f", "\u061c", "\u2028", "\u2029", "\ufeff", "\u2060", "\v", "\f", "\x0e",
}

func TestForeignTextGivesNoOrders(t *testing.T) {
	for _, o := range orders {
		in := "before " + o + " after"
		for name, out := range map[string]string{"Text": Text(in), "Line": Line(in), "Cell": Cell(in), "Clip": Clip(in, 40)} {
			if strings.ContainsFunc(out, obeyed) || strings.ContainsFunc(out, unicode.IsControl) || !strings.HasPrefix(out, "before ") || !strings.HasSuffix(out, " after") {
				t.Errorf("%s makes %q of %q", name, out, in)
			}
		}
	}
	if got := Text("Zürich\n\tindented\n"); got != "Zürich\n\tindented\n" {
		t.Errorf("Text makes %q of lines", got)
	}
}

func TestCellShowsWhatItHides(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "Zürich": "Zürich", "a\nFAKE\tLINE": "a␤FAKE␉LINE", "\x1b]0;x\a": "␛]0;x␇", "a\x7f": "a␡", "\u202eevil": "<U+202E>evil", "\u009b1m": "<U+009B>1m", "\xff": "\uFFFD",
	} {
		if got := Cell(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, in := range []string{strings.Repeat("x", 70_000), strings.Repeat("ü", 70_000), strings.Repeat("\n", 70_000), strings.Repeat("\xf0\x9fx", 400)} {
		if got := Clip(in, 200); len(got) > 200 || len(got) < 190 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%.10q… becomes %d bytes: %q", in, len(got), got)
		}
	}
	if got := Clip("short", 200); got != "short" {
		t.Errorf("short text becomes %q", got)
	}
}
