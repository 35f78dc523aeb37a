package addon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBindings: each binding is one object, or one for each namespace; names differ by role and subject, whatever characters the subject has.
func TestBindings(t *testing.T) {
	doc := &v1alpha1.Cluster{}
	if got := testkit.Value(addon.Bindings(doc))(t); len(got) != 0 {
		t.Errorf("without bindings: %s", got)
	}
	doc.Spec.Identity.Bindings = []v1alpha1.Binding{
		{Group: "corp:platform", Role: "cluster-admin"},
		{Group: "corp:platform", Role: "view", Namespaces: []string{"shop", "stage"}},
		{User: "corp:platform", Role: "view"},
		{User: "https://login.example.org#Ünï \"x\": {y}", Role: "view"},
		{ServiceAccount: "ci/deployer", Role: "edit", Namespaces: []string{"shop"}},
	}
	text := testkit.Value(addon.Bindings(doc))(t)
	objects := testkit.Value(manifest.Parse(text))(t)
	seen := map[string]bool{}
	for _, o := range objects {
		key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if seen[key] || !strings.HasPrefix(o.GetName(), "naupegos:") {
			t.Errorf("%s is there twice, or not ours", key)
		}
		seen[key] = true
	}
	if len(objects) != 6 {
		t.Errorf("%d objects, want 6:\n%s", len(objects), text)
	}
	for _, want := range []string{"kind: Group\n  name: corp:platform", "kind: ServiceAccount\n  name: deployer\n  namespace: ci", `name: 'https://login.example.org#Ünï "x": {y}'`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := addon.BindingNamespaces(doc); !slices.Equal(got, []string{"shop", "stage"}) {
		t.Errorf("the namespaces are %v", got)
	}
	if got := testkit.Value(manifest.Parse(addon.NamespaceManifests([]string{"shop", "stage"})))(t); len(got) != 2 {
		t.Errorf("%d namespaces", len(got))
	}
}
