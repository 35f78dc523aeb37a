package watch

import (
	"time"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// backupWords describes the state of a cluster's backups.
func backupWords(b *backups.Backups, name string, now time.Time) string {
	ago := func(at time.Time) string { return coarse(now.Sub(at)) + " old" }
	switch {
	case b.Problem != "":
		return b.Problem
	case b.LastID == "":
		return "none; naupegos backup create " + name + " creates one"
	case b.ProvenID == "":
		return "the last is " + ago(b.Last) + "; none is proven"
	case b.ProvenID == b.LastID:
		return "the last is " + ago(b.Last) + ", and proven"
	}
	return "the last is " + ago(b.Last) + ", the last proven one " + ago(b.Proven)
}

// scheduleWords describes the state of the backups that machines make on a schedule.
func scheduleWords(s *backups.Scheduled, name string, now time.Time) string {
	if s.Problem != "" {
		return s.Schedule + ": " + s.Problem
	}
	is := "none has been made yet"
	if s.Last != nil {
		is = "the last is " + coarse(now.Sub(s.Last.At)) + " old, by " + s.Last.Machine
	}
	if s.Overdue {
		is = "OVERDUE: " + is
	}
	is = s.Schedule + ": " + is + "; the next at " + s.Next.Local().Format(time.DateTime)
	if s.Failed != nil {
		is += "; " + s.Failed.Machine + " failed at " + s.Failed.At.Local().Format(time.DateTime) + ": " + s.Failed.What
	} else if s.Overdue {
		is += "; see naupegos-backup.service on the control-plane machines: naupegos logs " + name
	}
	if s.Unpruned != nil {
		is += "; old ones can't be removed: " + s.Unpruned.What
	}
	return is
}

// coarse returns an age that seldom changes: hours, or from two days on, days.
func coarse(d time.Duration) string {
	switch h := int(d.Hours()); {
	case h < 1:
		return "less than an hour"
	case h < 48:
		return words.Count(h, "hour", "hours")
	default:
		return words.Count(h/24, "day", "days")
	}
}
