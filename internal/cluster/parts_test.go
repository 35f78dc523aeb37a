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
		if l.Facts.Get(memory.Converged) != "" {
			t.Errorf("after %s alone the cluster is thought to be as the document says", part)
		}
	}
	golden(t, "parts", out.String())
}

// TestPauseAfter has the last hop of an upgrade end at a machine: those before it in the roll are done, and nothing behind it.
func TestPauseAfter(t *testing.T) {
	l := upgraded(t, "v1.36.3")
	l.Doc = documentOf(t, "v1.36.4") // a patch: first the files, then the hop
	l.hop()
	l.everythingDone()
	l.hopMade()
	planned := func(machine string) (*plan.Plan, error) {
		testkit.Must(t, l.AdvanceReleases(t.Context()))
		o := l.observed(nil, controlPlanes(3)...)
		o.Health[0].Leader = true
		p := &plan.Plan{Steps: testkit.Value(l.steps(o, testkit.Value(l.infrastructure(t.Context(), o))(t)))(t)}
		l.PauseAfter(machine)
		return p, l.takePart(o, p)
	}
	p, err := planned("demo-cp-3")
	testkit.Must(t, err)
	var ids []string
	for _, s := range p.Steps {
		ids = append(ids, s.ID)
	}
	if at := l.PausesAfter(); at != "demo-cp-3" {
		t.Errorf("the plan pauses after %q", at)
	}
	golden(t, "pause", strings.Join(append(ids, p.LeftOut...), "\n")+"\n")
	if _, err := planned("demo-cp-9"); fail.KindOf(err) != fail.NotFound || !strings.Contains(err.Error(), "demo-cp-9") {
		t.Errorf("a machine that there is not: %v", err)
	}
}
