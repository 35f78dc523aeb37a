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

// TestRatesAreBounded: the table keeps its size, and drops only the least recently used address.
func TestRatesAreBounded(t *testing.T) {
	r := NewRates(0.001, 3, 1000)
	for i := range 200_000 {
		r.Allow(fmt.Sprint("address ", i))
	}
	if r.Len() != 1000 {
		t.Errorf("the table has %d addresses", r.Len())
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
		t.Error("x was dropped, or is over its rate")
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
	at := time.Now()
	l := newLog(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return at })
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
	if n := l.repeats.Len(); n > mostKeys+1 {
		t.Errorf("the table has %d keys", n)
	}
	at = at.Add(time.Minute)
	if held := l.repeats.Ended(); l.repeats.Len() != 0 || len(held) != 1 || held[0].Key != "" {
		t.Errorf("after a minute %d keys are left, and %v was held", l.repeats.Len(), held)
	}
}

// TestQuiet: a flood of packets writes few lines a minute.
func TestQuiet(t *testing.T) {
	var out bytes.Buffer
	log := Quiet(slog.New(slog.NewTextHandler(&out, nil))).With("port", 67)
	for i := range 10_000 {
		log.Warn("no address is free", "mac", fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255), "name", "\x1b[2J"+strings.Repeat("x", 5000))
	}
	if n := strings.Count(out.String(), "\n"); n != perMinute || out.Len() > perMinute*500 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines, %d bytes", n, out.Len())
	}
	repeats := log.Handler().(*quiet).repeats
	if held := repeats.End(); len(held) != 1 || held[0].Times != 10_000-perMinute {
		t.Errorf("held back: %v", held)
	}
	log.Warn("something else")
	if !strings.Contains(out.String(), "something else") || !strings.Contains(out.String(), "port=67") {
		t.Error(out.String())
	}
}
