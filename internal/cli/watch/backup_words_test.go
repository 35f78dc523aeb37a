package watch

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/cluster/backups"
)

func TestBackupWords(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for want, b := range map[string]backups.Backups{
		"none; naupegos backup create demo creates one":          {},
		"the last is less than an hour old; none is proven":      {LastID: "a", Last: ago(time.Minute)},
		"the last is 47 hours old, and proven":                   {LastID: "a", Last: ago(47 * time.Hour), ProvenID: "a", Proven: ago(47 * time.Hour)},
		"the last is 1 hour old, the last proven one 2 days old": {LastID: "b", Last: ago(time.Hour), ProvenID: "a", Proven: ago(48 * time.Hour)},
		"the bucket can't be reached":                            {Problem: "the bucket can't be reached"},
	} {
		if got := backupWords(&b, "demo", now); got != want {
			t.Errorf("%+v is said as %q, want %q", b, got, want)
		}
	}
}

func TestScheduleWords(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.Local)
	next := now.Add(time.Hour)
	last := &turns.Done{At: now.Add(-3 * time.Hour), Machine: "demo-cp-2"}
	for want, s := range map[string]backups.Scheduled{
		"0 * * * *: none has been made yet; the next at 2026-11-23 13:00:00":                {},
		"0 * * * *: the last is 3 hours old, by demo-cp-2; the next at 2026-11-23 13:00:00": {Last: last},
		"0 * * * *: OVERDUE: the last is 3 hours old, by demo-cp-2; the next at 2026-11-23 13:00:00; demo-cp-1 failed at 2026-11-23 12:00:00: no bucket": {Last: last, Overdue: true,
			Failed: &turns.Failed{At: now, Machine: "demo-cp-1", What: "no bucket"}},
		"0 * * * *: OVERDUE: none has been made yet; the next at 2026-11-23 13:00:00; see naupegos-backup.service on the control-plane machines: naupegos logs demo": {Overdue: true},
		"0 * * * *: the last is 3 hours old, by demo-cp-2; the next at 2026-11-23 13:00:00; old ones can't be removed: no right to":                                  {Last: last, Unpruned: &turns.Failed{What: "no right to"}},
		"0 * * * *: etcd does not answer": {Problem: "etcd does not answer"},
	} {
		s.Schedule, s.Next = "0 * * * *", next
		if got := scheduleWords(&s, "demo", now); got != want {
			t.Errorf("%+v is said as %q, want %q", s, got, want)
		}
	}
}
