package verbs

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestDurations: days and weeks are valid durations, and an invalid duration is refused with the correct notation.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "2w": 336 * time.Hour, "1.5d": 36 * time.Hour, "5m": 5 * time.Minute, "-1d": -24 * time.Hour, "0": 0, "1h30m": 90 * time.Minute, "d": -1, "30": -1, "30days": -1, "": -1,
	} {
		var got time.Duration
		c := &cobra.Command{Use: "x"}
		c.Flags().DurationVar(&got, "ttl", 0, "")
		TakeDays(c)
		err := c.ParseFlags([]string{"--ttl=" + text})
		if want == -1 && text != "-1d" {
			if err == nil || !strings.Contains(err.Error(), "30d or 2w") {
				t.Errorf("%q: %s, %v", text, got, err)
			}
			continue
		}
		if also, e := c.Flags().GetDuration("ttl"); err != nil || e != nil || got != want || also != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
}
