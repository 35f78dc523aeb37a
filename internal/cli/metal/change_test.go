package metal

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestAssignNeedsACluster says so before it looks for a server.
func TestAssignNeedsACluster(t *testing.T) {
	c := (&Verbs{}).assign()
	c.SetArgs([]string{"nosuch"})
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.Execute(); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), "no cluster is given") {
		t.Error(err)
	}
}
