package cluster

import (
	"os"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTutorialShowsThePlan: the excerpt in the tutorial is what naupegos plan prints of a new cluster.
func TestTutorialShowsThePlan(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2))
	o := l.observed(nil)
	machines, err := l.infrastructure(t.Context(), o)
	testkit.Must(t, err)
	var b strings.Builder
	testkit.Must(t, show.WriteText(&b, &plan.Plan{Verb: "apply", Cluster: "demo", Steps: testkit.Value(l.steps(o, machines))(t)}, show.Look{}))
	testkit.Golden(t, "fresh-text.golden", b.String())

	_, excerpt, _ := strings.Cut(string(testkit.Value(os.ReadFile("../../docs/tutorial.md"))(t)), "Plan: ")
	_, excerpt, _ = strings.Cut(excerpt, "\n") // the counts of the summary are of another provider
	excerpt, _, _ = strings.Cut(excerpt, "```")
	rest, found := b.String(), 0
	for line := range strings.Lines(strings.NewReplacer("tour-general-", "demo-a-", "tour-", "demo-").Replace(excerpt)) {
		if line = strings.TrimSpace(line); line == "" || line == "…" {
			continue
		}
		found++
		_, after, ok := strings.Cut(rest, line+"\n")
		if !ok {
			t.Errorf("the plan lacks this line of the tutorial, or has it earlier: %s", line)
			continue
		}
		rest = after
	}
	if found < 5 {
		t.Errorf("the tutorial shows %d lines of the plan", found)
	}
}
