package cluster

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/testkit"
)

// identityLab returns a running cluster with this spec.identity.
func identityLab(t *testing.T, identity string) *lab {
	t.Helper()
	doc := identityDocument(t, identity)
	return newLab(t, doc).Running(doc)
}

func identityDocument(t *testing.T, identity string) *v1alpha1.Cluster {
	t.Helper()
	return testkit.Value(validation.Parse("cluster.yaml", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"+
		"spec:\n  provider: {local: {}}\n  workers: [{name: a, replicas: 1}]\n  controlPlane: {replicas: 1}\n  identity: "+identity+"\n")))(t)
}

// TestPlanIdentity follows issuers and bindings from their first apply until they have left the document.
func TestPlanIdentity(t *testing.T) {
	const issuers = "{issuers: [{name: corp, url: 'https://login.example.org', audiences: [k]}], bindings: [{group: 'corp:dev', role: view}]}"
	l := identityLab(t, issuers)
	first := l.mustPlan(l.observed(nil, "demo-cp-1"))
	for _, want := range []string{"create  addon/identity", "wait    authentication"} {
		if !strings.Contains(first, want) {
			t.Errorf("the plan lacks %q:\n%s", want, first)
		}
	}
	p := testkit.Value(l.KubeParams(t.Context()))(t)
	if got := string(layout.AuthenticationConfig(p.Issuers)); !strings.Contains(got, "url: https://login.example.org") || !strings.Contains(got, "prefix: 'corp:'") {
		t.Errorf("API servers get\n%s", got)
	}
	installed := l.observed(nil, "demo-cp-1")
	installed.Addons[addon.NameBindings] = true
	for _, s := range l.stepsOf(installed) {
		if s.ID == AuthenticationStep && s.Timeout != authenticationTimeout {
			t.Errorf("the wait takes up to %s", s.Timeout)
		}
	}

	none := identityLab(t, "{}")
	if got := none.mustPlan(none.observed(nil, "demo-cp-1")); got != "" {
		t.Errorf("without an identity:\n%s", got)
	}
	testkit.Must(t, none.Facts.Set(t.Context(), memory.Authenticated, "digest"))
	o := none.observed(nil, "demo-cp-1")
	o.Surplus = []observe.SurplusAddon{{Name: addon.NameBindings}}
	last := none.mustPlan(o)
	for _, want := range []string{"destroy remove-addon/identity", "wait    authentication"} {
		if !strings.Contains(last, want) {
			t.Errorf("the plan lacks %q:\n%s", want, last)
		}
	}
}
