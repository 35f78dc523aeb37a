package cli

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster"
)

func TestBackupWords(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for want, b := range map[string]cluster.Backups{
		"none; naupegos backup create demo makes one":            {},
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
