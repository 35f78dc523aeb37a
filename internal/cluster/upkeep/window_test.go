package upkeep

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestWindow(t *testing.T) {
	for _, c := range []struct {
		days     []string
		from, to string
		open     map[string]bool
		next     map[string]string
	}{
		{nil, "02:00", "05:00",
			map[string]bool{"2026-01-05 01:59": false, "2026-01-05 02:00": true, "2026-01-05 04:59": true, "2026-01-05 05:00": false},
			map[string]string{"2026-01-05 01:00": "2026-01-05 02:00", "2026-01-05 05:00": "2026-01-06 02:00", "2026-01-05 03:00": "2026-01-05 03:00"}},
		{[]string{"Fri", "Sat"}, "22:00", "04:00", // 2026-01-09 is a Friday
			map[string]bool{"2026-01-09 03:00": false, "2026-01-09 23:00": true, "2026-01-10 03:59": true, "2026-01-11 03:59": true, "2026-01-11 22:30": false},
			map[string]string{"2026-01-11 05:00": "2026-01-16 22:00"}},
		{[]string{"Sun"}, "00:00", "00:00", map[string]bool{"2026-01-11 00:00": true, "2026-01-11 23:59": true, "2026-01-12 00:00": false}, nil},
	} {
		w := testkit.Value(ParseWindow(c.days, c.from, c.to))(t)
		at := func(text string) time.Time { return testkit.Value(time.Parse("2006-01-02 15:04", text))(t) }
		for now, want := range c.open {
			if w.Open(at(now)) != want {
				t.Errorf("%v %s-%s at %s: open %t", c.days, c.from, c.to, now, !want)
			}
		}
		for now, want := range c.next {
			if got := w.Next(at(now)); !got.Equal(at(want)) {
				t.Errorf("%v %s-%s after %s: opens %s, want %s", c.days, c.from, c.to, now, got, want)
			}
		}
	}
	if !(Window{}).Open(time.Now()) {
		t.Error("no window is always open")
	}
	for _, bad := range [][3]string{{"Monday", "01:00", "02:00"}, {"Mon", "25:00", "02:00"}, {"Mon", "01:00", "x"}} {
		if _, err := ParseWindow([]string{bad[0]}, bad[1], bad[2]); err == nil {
			t.Errorf("%v is no window", bad)
		}
	}
}
