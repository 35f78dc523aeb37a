package words

import (
	"strings"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0.0s", 340 * time.Millisecond: "0.3s", 12300 * time.Millisecond: "12.3s", 99940 * time.Millisecond: "99.9s",
		245 * time.Second: "4m05s", 3599600 * time.Millisecond: "60m00s", 62 * time.Minute: "1h02m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// TestWrap: lines break at words only, and colours have no width.
func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 10, ""}, {"a bundle of two", 8, "a bundle|of two"}, {"kube-controller-manager is up", 10, "kube-controller-manager|is up"}, {"exactly 10", 10, "exactly 10"},
		{"\x1b[1ma bundle\x1b[0m of two", 8, "\x1b[1ma bundle\x1b[0m|of two"}, {"größer als", 6, "größer|als"},
	} {
		if got := strings.Join(Wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
