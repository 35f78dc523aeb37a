package peer

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestKey(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "192.0.2.7:80": "192.0.2.7", "[2001:db8:1:2:3::4]:443": "2001:db8:1:2::/64", "2001:db8:1:2:ffff::": "2001:db8:1:2::/64",
		"::ffff:192.0.2.7": "192.0.2.7", "fe80::1%eth0": "fe80::/64", "@": "@", "": "", "[::1]": "::/64",
	} {
		if got := Key(in); got != want {
			t.Errorf("Key(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain", "plain"}, {"a\x1b]0;x\x07\nb", "a?]0;x??b"}, {strings.Repeat("a", 60_000), strings.Repeat("a", 17) + "…"}, {"\xff\xfe", "??"},
		{strings.Repeat("ä", 20), strings.Repeat("ä", 8) + "…"},
	} {
		if got := Clip(c.in, 20); got != c.want || len(got) > 20 {
			t.Errorf("Clip(%.20q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// TestRatesAreBounded: a new address costs the same whether a hundred or a million came before, and none drops another at random.
func TestRatesAreBounded(t *testing.T) {
	r := NewRates(0.001, 3, 1000)
	for i := range 200_000 {
		r.Allow(fmt.Sprint("address ", i))
	}
	if r.Len() != 1000 {
		t.Errorf("%d addresses are remembered", r.Len())
	}
	for range 3 {
		if !r.Would("x") || !r.Allow("x") {
			t.Error("refused too early")
		}
	}
	for i := range 999 { // x stays among the last thousand
		r.Allow(fmt.Sprint("another ", i))
	}
	if r.Would("x") || r.Allow("x") || r.Until("x") < 500*time.Second {
		t.Error("x was forgotten, or may ask too often")
	}
}

func BenchmarkNewAddress(b *testing.B) {
	r := NewRates(1, 10, 10_000)
	for i := range b.N {
		r.Allow(fmt.Sprint(i))
	}
}

func TestLogIsBounded(t *testing.T) {
	var out bytes.Buffer
	l := NewLog(slog.New(slog.NewTextHandler(&out, nil)))
	at := time.Now()
	l.repeats.now = func() time.Time { return at }
	query := strings.Repeat("q", 60_000) + "\n\x1b[2J"
	for i := range 500 {
		l.Warn(t.Context(), "a machine was not answered", fmt.Sprintf("[2001:db8::%x]:%d", i, 1000+i), slog.String("query", query))
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || out.Len() > 1000 {
		t.Errorf("%d lines, %d bytes", n, out.Len())
	}
	at = at.Add(time.Minute)
	l.Warn(t.Context(), "a machine was not answered", "2001:db8::1")
	if !strings.Contains(out.String(), "times=499") {
		t.Error(out.String()[max(0, out.Len()-300):])
	}
	for i := range 5000 {
		l.Warn(t.Context(), "x", fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	if n := strings.Count(out.String(), "\n"); n > burstLog+50 {
		t.Errorf("5,000 addresses wrote %d lines", n)
	}
	if n := l.repeats.all.len(); n > mostKeys {
		t.Errorf("%d keys are remembered", n)
	}
	at = at.Add(time.Minute)
	if over := l.repeats.Ended(); l.repeats.all.len() != 0 || len(over) != 0 {
		t.Errorf("%v", over)
	}
}

// TestQuiet: packets that each cause a line write few lines in a minute.
func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	log := Quiet(slog.New(slog.NewTextHandler(&out, nil))).With("port", 67)
	for i := range 10_000 {
		log.Warn("no address is free", "mac", fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255), "name", "\x1b[2J"+strings.Repeat("x", 5000))
	}
	if n := strings.Count(out.String(), "\n"); n != perMinute || out.Len() > perMinute*500 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines, %d bytes", n, out.Len())
	}
	log.Warn("something else")
	if !strings.Contains(out.String(), "something else") || !strings.Contains(out.String(), "port=67") {
		t.Error(out.String())
	}
}
