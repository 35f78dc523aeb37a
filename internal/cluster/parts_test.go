package cluster

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEveryStepIsOfAPart lists the steps of a new cluster by part.
func TestEveryStepIsOfAPart(t *testing.T) {
	l := newLab(t, document(t, 1, 1, 1))
	o := l.observed(nil)
	machines := testkit.Value(l.infrastructure(t.Context(), o))(t)
	var out strings.Builder
	for _, part := range parts.All() {
		p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: testkit.Value(l.steps(o, machines))(t)}
		l.Only([]parts.Part{part})
		err := l.takePart(o, p)
		out.WriteString("== " + string(part) + "\n")
		for _, s := range p.Steps {
			out.WriteString(s.ID + "\n")
		}
		for _, left := range p.LeftOut {
			out.WriteString("left out: " + left + "\n")
		}
		if err != nil {
			out.WriteString("refused: " + err.Error() + "\n")
		}
		if (len(p.Steps) == 0) != (fail.KindOf(err) == fail.NotReady) && part != parts.Addons {
			t.Errorf("%s: %d steps and %v", part, len(p.Steps), err)
		}
		testkit.Must(t, l.Converged(t.Context()))
		if l.facts.Get(memory.Converged) != "" {
			t.Errorf("after %s alone the cluster is thought to be as the document says", part)
		}
	}
	golden(t, "parts", out.String())
}
