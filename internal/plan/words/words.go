// Package words formats the output about a plan and its run: untrusted text on one line, durations, numbers of things, lists.
//
// It knows nothing of plans.
package words

import (
	"fmt"
	"strings"
	"time"
)

// Duration formats a duration with the precision that people want: 0.3s, 12.3s, 4m05s, 1h02m.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0.0s"
	case d < 99*time.Second+950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// Count formats a number of things: "1 step", "3 steps".
func Count(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// First joins the first n of list, and adds how many more there are.
func First(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:n], ", ") + ", and " + Count(len(list)-n, "more", "more")
}
