package agent

import (
	"os"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestBegan(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC) // the machine is up for 100 s, its unit for 60
	for name, c := range map[string]struct {
		then, pid string
		want      time.Time
	}{
		"a clock that goes evenly":   {"Fri 2026-01-02 03:04:00 UTC", "7", now.Add(-time.Minute)},
		"a clock that was put ahead": {"Fri 2026-01-02 01:04:00 UTC", "7", now.Add(-2*time.Hour - time.Minute)},
		"a clock that was put back":  {"Fri 2026-01-02 05:04:00 UTC", "7", now.Add(-time.Minute)},
		"an unknown form of time":    {"yesterday", "7", now.Add(-time.Minute)},
		"no process":                 {"", "0", time.Time{}},
	} {
		v := map[string]string{"ExecMainPID": c.pid, "ExecMainStartTimestamp": c.then, "ExecMainStartTimestampMonotonic": "40000000"}
		if got := began(v, now, 100*time.Second); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := began(map[string]string{"ExecMainPID": "0", "ExecMainStartTimestampMonotonic": "0"}, now, time.Minute); !got.IsZero() {
		t.Errorf("a unit that never ran began at %v", got)
	}
}

// A dry run and a status report since when the machine and its units run.
func TestLife(t *testing.T) {
	f := newFakeHost(t)
	testkit.Must(t, os.MkdirAll(f.root+"/proc/sys/kernel/random", 0o755))
	write(t, f.root+"/proc/sys/kernel/random/boot_id", "first\n")
	c := machine.Config{Machine: "m", Units: []machine.Unit{{Name: "app.service", Content: "[Service]\nExecStart=/bin/app\n", Active: true}}}
	if r, err := f.agent().Apply(t.Context(), c, true); err != nil || r.BootID != "first" || len(r.Since) != 0 || r.Down["app.service"] != "inactive (x)" {
		t.Errorf("before it runs: %+v %v", r.Life, err)
	}
	f.apply(t, c)
	r, err := f.agent().Apply(t.Context(), c, true)
	if want := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC); err != nil || r.BootID != "first" || !r.Since["app.service"].Equal(want) || len(r.Down) != 0 {
		t.Errorf("%+v %v, want a start at %v", r.Life, err, want)
	}
	s, err := f.agent().Status(t.Context())
	if err != nil || s.BootID != "first" || !s.Since["app.service"].Equal(r.Since["app.service"]) {
		t.Errorf("%+v %v, want %+v", s.Life, err, r.Life)
	}
	_, err = f.Run(t.Context(), nil, "systemctl", "stop", "app.service")
	testkit.Must(t, err)
	if s, err = f.agent().Status(t.Context()); err != nil || len(s.Since) != 0 || len(s.Down) != 1 {
		t.Errorf("a stopped unit still runs: %+v %v", s.Life, err)
	}
}
