package show

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReplayIsTheSame: a remote run looks the same as a local one.
func TestReplayIsTheSame(t *testing.T) {
	tries := 0
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Warnings: []string{"odd"}, Steps: []*plan.Step{
		{ID: "a", Action: plan.Create, Title: "make a", Subject: "x", Announces: plan.Rolling, Run: func(_ context.Context, p plan.Progress) error {
			p.Status("working")
			if tries++; tries < 2 {
				return fail.New(fail.NotReady, "not yet")
			}
			return nil
		}},
		{ID: "b", Action: plan.Destroy, Title: "take b", Subject: "y", Removes: true, Needs: []string{"a"}, Run: func(context.Context, plan.Progress) error { return errors.New("broken") }},
		{ID: "c", Action: plan.Change, Title: "never", Subject: "y", Needs: []string{"b"}, Run: func(context.Context, plan.Progress) error { return nil }},
	}}
	var lines, here, there, planHere, planThere bytes.Buffer
	testkit.Must(t, WriteEvent(&lines, p, time.Now()))
	two := twice{newJSONLines(&lines), newPlain(&here)}
	_, err := plan.Execute(t.Context(), p, plan.Options{Observer: two, RetryInterval: 1, Parallel: 1})
	if err == nil {
		t.Fatal("it did not fail")
	}
	r := &Replay{Plan: func(p *plan.Plan) error { return WriteText(&planThere, p, Look{}) }, Observer: func() plan.Observer { return newPlain(&there) }}
	for line := range bytes.Lines(lines.Bytes()) {
		testkit.Must(t, r.Line(line))
	}
	testkit.Must(t, WriteText(&planHere, p, Look{}))
	if d := cmp.Diff(planHere.String(), planThere.String()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(here.String(), there.String()); d != "" {
		t.Error(d)
	}
	var other, shown bytes.Buffer // a plan without anything new is not shown, but its steps are known
	less := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: p.Steps[:1]}
	testkit.Must(t, WriteSteps(&other, less, time.Now()))
	_, err = plan.Execute(t.Context(), less, plan.Options{Observer: newJSONLines(&other)})
	testkit.Must(t, err)
	r2 := &Replay{Plan: r.Plan, Observer: func() plan.Observer { return newPlain(&shown) }, plan: r.plan}
	for line := range bytes.Lines(other.Bytes()) {
		testkit.Must(t, r2.Line(line))
	}
	if !strings.Contains(shown.String(), "1 of 1 step done") {
		t.Errorf("shown was %s", &shown)
	}
	r.Abandon() // after the end, nothing more is shown
	if d := cmp.Diff(here.String(), there.String()); d != "" {
		t.Error(d)
	}
}

// twice passes one run to two observers.
type twice struct{ a, b plan.Observer }

func (o twice) Begin(p *plan.Plan, at time.Time) { o.a.Begin(p, at); o.b.Begin(p, at) }
func (o twice) Event(e plan.Event)               { o.a.Event(e); o.b.Event(e) }
func (o twice) Note(text string)                 { o.a.Note(text); o.b.Note(text) }
func (o twice) End(r *plan.Result)               { o.a.End(r); o.b.End(r) }
