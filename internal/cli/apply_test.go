package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestApplied is stumble 8: the end of an apply counts the bundle and the cluster apart; only a new cluster comes with further commands, never with destroy.
func TestApplied(t *testing.T) {
	for _, created := range []bool{true, false} {
		var out bytes.Buffer
		a := &App{Out: &out, bundled: 16*time.Minute + 50*time.Second}
		testkit.Must(t, a.applied("demo", "demo.yaml", nil, nil, operate.Done{Changed: true, Created: created, Seconds: 61}))
		text := out.String()
		if !strings.Contains(text, "bundle 16m50s") || !strings.Contains(text, "cluster 61.0s") || strings.Contains(text, "naupegos kubectl demo") != created || strings.Contains(text, "destroy") {
			t.Errorf("created: %t: %s", created, text)
		}
	}
}
