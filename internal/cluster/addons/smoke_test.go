package addons

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// TestProofsHaveTime: a document whose nodes may take long gives its proofs as long; a short limit for nodes leaves them their own.
func TestProofsHaveTime(t *testing.T) {
	for ready, want := range map[time.Duration][3]time.Duration{
		time.Minute:      {3 * time.Minute, 5 * time.Minute, 15 * time.Minute},
		10 * time.Minute: {10 * time.Minute, 10 * time.Minute, 15 * time.Minute},
		time.Hour:        {time.Hour, time.Hour, time.Hour},
	} {
		var doc v1alpha1.Cluster
		doc.Spec.Timeouts.NodeReady.Duration = ready
		if got := [3]time.Duration{SmokeTime(&doc), SiteTime(&doc), CloudSmokeTime(&doc)}; got != want {
			t.Errorf("nodeReady %s: %v, want %v", ready, got, want)
		}
	}
}
