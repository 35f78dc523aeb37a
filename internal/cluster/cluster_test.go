package cluster

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestChangesAreCompared: changes are compared with the state that the cluster last reached, or else with the last applied document.
func TestChangesAreCompared(t *testing.T) {
	l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
	refused := func(when string, fields ...string) {
		t.Helper()
		err := env.CheckChanges(l.Record, l.Doc)
		if len(fields) == 0 {
			if err != nil {
				t.Errorf("%s: %v", when, err)
			}
			return
		}
		for _, f := range fields {
			if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), f+": can't change") {
				t.Errorf("%s: %s is not refused: %v", when, f, err)
			}
		}
	}
	refused("nothing is remembered")
	l.Record.Document = testkit.Value(l.Doc.Marshal())(t)
	refused("the same document")
	l.Doc.Spec.Endpoint.Kind, l.Doc.Spec.Kubernetes.Version = v1alpha1.EndpointDirect, "v1.35.4"
	l.Doc.Spec.Endpoint.Gateways = nil
	refused("another document", "spec.endpoint.kind", "spec.kubernetes.version")
	if _, err := l.PlanApply(t.Context()); fail.KindOf(err) != fail.Refused {
		t.Errorf("planned: %v", err)
	}
	testkit.Must(t, l.Converged(t.Context()))
	refused("brought to it")
	l.Doc.Spec.Kubernetes.PodCIDR = "10.250.0.0/16"
	refused("the default is meant", "spec.kubernetes.podCIDR")
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bootstrapped, ""))
	refused("the cluster never came up")
}

// bundleOf is a bundle of the default release with an ID of one letter.
func bundleOf(letter string) *bundle.Bundle {
	return &bundle.Bundle{ID: strings.Repeat(letter, 64), Manifest: bundletest.Manifest(release.Default)}
}

// TestOtherBundle: a cluster that is up is not rebuilt from another bundle than its own without consent, and remembers it then.
func TestOtherBundle(t *testing.T) {
	doc := document(t, 1, 0, 1)
	l := newLab(t, doc)
	l.Current = bundleOf("a")
	if got := l.NewerBundle() + l.BundleNote(); got != "" || l.OtherBundle() {
		t.Errorf("of a new cluster: %s", got)
	}
	l.Running(doc)
	testkit.Must(t, l.Converged(t.Context()))
	if memory.BundleOf(l.Record) != l.Current.ID || l.OtherBundle() {
		t.Fatalf("remembered: %s", memory.BundleOf(l.Record))
	}
	l.Current, l.Newest = bundleOf("b"), bundleOf("b")
	if note := l.BundleNote(); !strings.Contains(note, "bundle aaaaaaaaaaaa, with which the cluster was built, is not available here, but bbbbbbbbbbbb is") {
		t.Errorf("the note is %q", note)
	}
	o := l.observed(nil, "demo-cp-1")
	machines := testkit.Value(l.infrastructure(t.Context(), o))(t)
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: testkit.Value(l.steps(o, machines))(t)}
	if err := p.CheckConsents(nil); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "--consent other-bundle") {
		t.Errorf("without consent: %v", err)
	}
	testkit.Must(t, p.CheckConsents([]string{env.ConsentBundle}))
	var taken *plan.Step
	for _, s := range p.Steps {
		if s.Consent != "" {
			taken = s
		}
	}
	testkit.Must(t, taken.Run(t.Context(), nil))
	if memory.BundleOf(l.Record) != l.Current.ID || l.OtherBundle() || l.BundleNote() != "" {
		t.Errorf("consented to, and remembered: %s", memory.BundleOf(l.Record))
	}
}

// TestNewerBundle: a newer bundle is reported, but is not a change.
func TestNewerBundle(t *testing.T) {
	doc := document(t, 1, 0, 1)
	l := newLab(t, doc).Running(doc)
	l.Current, l.Newest = bundleOf("a"), bundleOf("b")
	testkit.Must(t, l.Converged(t.Context()))
	if note := l.BundleNote(); !strings.Contains(note, "a newer bundle of Kubernetes "+release.Default+" is available, bbbbbbbbbbbb") {
		t.Errorf("the note is %q", note)
	}
	if text := l.mustPlan(l.observed(nil, "demo-cp-1")); text != "" {
		t.Errorf("the plan has\n%s", text)
	}
}

// TestBundleOfBeginnings: before the API has answered for the first time nothing is lost by another bundle.
func TestBundleOfBeginnings(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	l.Current = bundleOf("b")
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bundle, release.Default+" "+bundleOf("a").ID))
	if l.OtherBundle() {
		t.Error("a cluster that is not up asks for consent")
	}
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bootstrapped, "true"))
	if !l.OtherBundle() {
		t.Error("once it is up, it does not")
	}
	l.Current.Manifest.Kubernetes = "v1.99.0"
	if l.OtherBundle() {
		t.Error("the bundle of another release is no other bundle of this one")
	}
}
