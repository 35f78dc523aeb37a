package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReleaseTakesBackupsOrder: a release removes the copy of the store's data, from which machines make backups, from etcd.
func TestReleaseTakesBackupsOrder(t *testing.T) {
	l, observed := owned(t)
	testkit.Must(t, l.Facts.Set(t.Context(), memory.BackupLaid, "digest"))
	steps := testkit.Value(l.releaseSteps(observed(), ReleaseOptions{}))(t)
	if !slices.ContainsFunc(steps, func(s *plan.Step) bool { return s.ID == backups.LayOrderStep && s.Action == plan.Destroy }) {
		t.Error("it stays")
	}
}

// owned returns a cluster on given hosts that conforms to its document, and its observation for a release.
func owned(t *testing.T) (*lab, func() *observe.Observed) {
	t.Helper()
	doc := document(t, 3, 2, 2)
	doc.Spec.Security.PacketFilter = &v1alpha1.PacketFilter{}
	l := newLab(t, doc)
	l.cloud.keeps, l.Prov = true, hostsGiven{l.cloud}
	l.Running(doc)
	return l, func() *observe.Observed {
		l.Bare = true
		return l.observed(nil, controlPlanes(3)...)
	}
}

func TestReleasePlan(t *testing.T) {
	l, seen := owned(t)
	steps := testkit.Value(l.releaseSteps(seen(), ReleaseOptions{}))(t)
	golden(t, "release", listed(steps))
	at := func(id string) *plan.Step {
		return steps[slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == id })]
	}
	if d := strings.Join(at(observe.ConfigureID("demo-cp-1")).Details, "\n"); !strings.Contains(d, "naupegos-approver.conf") || !strings.Contains(d, "filter.nft") || strings.Contains(d, "manifests") {
		t.Errorf("of a control-plane machine goes\n%s", d)
	}
	for name, keeps := range map[string]bool{"demo-gw-1": false, "demo-cp-1": true, "demo-a-1": false} { // a unit that stays runs the agent
		if why := at(letGoID(name)).Reason; strings.Contains(why, "agent stays") != keeps {
			t.Errorf("%s is released because %s", name, why)
		}
	}
	if d := strings.Join(at(observe.ConfigureID("demo-a-1")).Details, "\n"); !strings.Contains(d, "filter.nft") || strings.Contains(d, "kubelet") {
		t.Errorf("of a worker goes\n%s", d)
	}
	// Resumed: a machine that its agent has forgotten is not compared with its configuration.
	testkit.Must(t, l.Facts.SetOf(t.Context(), memory.Released, "demo-a-1", "true"))
	o := seen()
	o.Machines["demo-a-1"].Err = errors.New("another cluster's kubelet runs")
	for _, s := range testkit.Value(l.releaseSteps(o, ReleaseOptions{}))(t) {
		if s.ID == observe.ConfigureID("demo-a-1") {
			t.Error("a machine that was let go is configured again")
		}
	}
}

func TestReleaseRefused(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
	_, err := l.PlanRelease(ctx, ReleaseOptions{})
	testkit.Fails(t, err, fail.Refused, "are Naupegos' own")
	l, seen := owned(t)
	testkit.Must(t, l.Facts.Set(ctx, memory.Bootstrapped, ""))
	_, err = l.PlanRelease(ctx, ReleaseOptions{})
	testkit.Fails(t, err, fail.NotReady, "has not come up yet")
	testkit.Must(t, l.Facts.Set(ctx, memory.Bootstrapped, "true"))
	o := seen()
	o.Machines["demo-a-2"].Err, o.Machines["demo-a-2"].Report = errors.New("connection refused"), nil
	_, err = l.releaseSteps(o, ReleaseOptions{})
	testkit.Fails(t, err, fail.Refused, "demo-a-2 can't be let go: it could not be examined: connection refused")
	l.state("demo-a-2", provider.Unreachable)
	_, err = l.releaseSteps(seen(), ReleaseOptions{})
	testkit.Fails(t, err, fail.Refused, "demo-a-2 can't be let go: it does not answer")
	testkit.Must(t, l.BeginRelease(ctx))
	_, err = l.PlanApply(ctx)
	testkit.Fails(t, err, fail.Refused, "naupegos release demo continues")
	testkit.Must(t, l.releasable(ctx)) // it was at rest when it began
}

// TestReleaseForgetsLast: if the release is killed before its end, the cluster is still in the store.
func TestReleaseForgetsLast(t *testing.T) {
	l, seen := owned(t)
	forgotten := false
	steps := testkit.Value(l.releaseSteps(seen(), ReleaseOptions{Forget: func(context.Context) error { forgotten = true; return nil }}))(t)
	before := []string{"forget"}
	for i := len(steps) - 1; i >= 0; i-- {
		if s := steps[i]; slices.Contains(before, s.ID) {
			before = append(before, s.Needs...)
		} else {
			t.Errorf("%s may come after all is forgotten", s.ID)
		}
	}
	if first := steps[0]; first.ID != "hand-over" {
		t.Errorf("%s comes before the handover", first.ID)
	}
	testkit.Must(t, steps[len(steps)-1].Run(t.Context(), nil))
	if !forgotten {
		t.Error("it is not forgotten")
	}
}

// TestImportPlan: the import takes over every machine, restarts nothing and loses only what the user agreed to; the cluster becomes ours in the
// last step.
func TestImportPlan(t *testing.T) {
	l, _ := owned(t)
	ctx := t.Context()
	testkit.Must(t, l.Facts.Set(ctx, memory.Bootstrapped, ""))
	testkit.Must(t, l.Facts.Set(ctx, memory.Importing, "true"))
	changed := "what runs has changed on demo-a-1"
	p := testkit.Value(l.PlanImport(ImportOptions{Lost: []string{"kube-apiserver: oidc-issuer-url goes"}, Changed: func(context.Context) (string, error) { return changed, nil }}))(t)
	testkit.Must(t, p.Check())
	golden(t, "import", listed(p.Steps))
	testkit.Fails(t, p.CheckConsents(nil), fail.Refused, ConsentLost)
	testkit.Must(t, p.CheckConsents([]string{ConsentLost}))
	step := func(id string) *plan.Step {
		return p.Steps[slices.IndexFunc(p.Steps, func(s *plan.Step) bool { return s.ID == id })]
	}
	for _, s := range p.Steps {
		if s.Consent == "" && s.Disruption().AtLeast(plan.Rolling) {
			t.Errorf("%s disturbs something", s.ID)
		}
	}
	testkit.Fails(t, step("import/unchanged").Run(ctx, nil), fail.Refused, changed)
	changed = ""
	testkit.Must(t, step("import/unchanged").Run(ctx, nil))

	for verb, plan := range map[string]func() error{
		"apply":   func() error { _, err := l.PlanApply(ctx); return err },
		"destroy": func() error { _, err := l.PlanDestroy(ctx, removal.DestroyOptions{}); return err },
		"reset":   func() error { _, err := l.PlanReset(ctx, removal.ResetOptions{}); return err },
	} {
		if err := plan(); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "not taken over yet") {
			t.Errorf("%s in between: %v", verb, err)
		}
	}
	testkit.Must(t, step("import/taken").Run(ctx, nil))
	if env.Importing(l.Record) || !l.Facts.Bootstrapped() {
		t.Error("the cluster is not ours")
	}
}
