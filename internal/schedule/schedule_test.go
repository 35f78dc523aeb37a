package schedule

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	const form = "2006-01-02 15:04 Mon"
	at := time.Date(2026, 11, 24, 20, 25, 30, 0, time.UTC) // a Tuesday
	for text, want := range map[string][3]string{          // OnCalendar, last, next
		"0 */12 * * *":    {"*-*-* 00,12:00:00 UTC", "2026-11-24 12:00 Tue", "2026-11-25 00:00 Wed"},
		"@hourly":         {"*-*-* *:00:00 UTC", "2026-11-24 20:00 Tue", "2026-11-24 21:00 Tue"},
		"@weekly":         {"Sun *-*-* 00:00:00 UTC", "2026-11-22 00:00 Sun", "2026-11-29 00:00 Sun"},
		"* * * * *":       {"*-*-* *:*:00 UTC", "2026-11-24 20:25 Tue", "2026-11-24 20:26 Tue"},
		"25 20 24 11 *":   {"*-11-24 20:25:00 UTC", "2026-11-24 20:25 Tue", "2027-11-24 20:25 Wed"},
		"0 2 * * 1-5":     {"Mon,Tue,Wed,Thu,Fri *-*-* 02:00:00 UTC", "2026-11-24 02:00 Tue", "2026-11-25 02:00 Wed"},
		"0 2 1 * 7":       {"*-*-01 02:00:00 UTC|Sun *-*-* 02:00:00 UTC", "2026-11-22 02:00 Sun", "2026-11-29 02:00 Sun"},
		"5/20 3 1,15 * *": {"*-*-01,15 03:05,25,45:00 UTC", "2026-11-15 03:45 Sun", "2026-12-01 03:05 Tue"},
		"0 0 29 2 *":      {"*-02-29 00:00:00 UTC", "2024-02-29 00:00 Thu", "2028-02-29 00:00 Tue"},
	} {
		s, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := strings.Join(s.OnCalendar(), "|"); got != want[0] {
			t.Errorf("%s: OnCalendar is %q, not %q", text, got, want[0])
		}
		if got := s.Last(at).Format(form); got != want[1] {
			t.Errorf("%s: the last one was %s, not %s", text, got, want[1])
		}
		if got := s.Next(at).Format(form); got != want[2] {
			t.Errorf("%s: the next one is %s, not %s", text, got, want[2])
		}
		if next := s.Next(at); !s.Last(next).Equal(next) || s.Next(next).Equal(next) {
			t.Errorf("%s: %s is not the last one at its own time", text, next)
		}
		for _, line := range s.OnCalendar() {
			systemdAgrees(t, line, at, s)
		}
	}
	for _, text := range []string{"", "daily", "0 0 * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "a * * * *", "0 0 31 2 *", "1,,2 * * * *", "-1 * * * *"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is taken for a schedule", text)
		}
	}
}

// systemdAgrees has systemd, where there is one, say when a schedule of one line comes next.
func systemdAgrees(t *testing.T, line string, at time.Time, s Schedule) {
	t.Helper()
	if len(s.OnCalendar()) > 1 {
		return
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	out, err := exec.Command(tool, "calendar", "--base-time="+at.Format("2006-01-02 15:04:05 UTC"), line).CombinedOutput()
	if want := s.Next(at).Format("Mon 2006-01-02 15:04:05 UTC"); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("systemd does not say that %q comes at %s: %v\n%s", line, want, err, out)
	}
}
