package cli

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPausesAreListed: history shows the machine after which a run paused; a run that failed before did not pause.
func TestPausesAreListed(t *testing.T) {
	meta := map[string]string{operate.MetaPause: "demo-cp-1"}
	var out strings.Builder
	testkit.Must(t, runTable(&out, []plan.RunRecord{{ID: "a", Outcome: plan.OutcomeSucceeded, Meta: meta}, {ID: "b", Outcome: plan.OutcomeFailed, Meta: meta},
		{ID: "c", Outcome: plan.OutcomeSucceeded}}))
	if table := out.String(); !strings.Contains(table, "succeeded, pauses after demo-cp-1") || strings.Count(table, "pauses after") != 1 {
		t.Errorf("the first run pauses, and no other:\n%s", table)
	}
}
