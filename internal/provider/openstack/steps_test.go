package openstack

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

// TestStepsSideBySide: independent resources are created at once; the first machines wait for few ports, workers for all.
func TestStepsSideBySide(t *testing.T) {
	useFake(t)
	doc := testDocument(t, "t3-many", strings.ReplaceAll(smallSpec, "{name: w, replicas: 1}", "{name: w, replicas: 60}"))
	p := fakeProvider(t, newFakeCloud(), doc)
	seen, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps(t.Context(), wanted(doc), seen)
	if err != nil {
		t.Fatal(err)
	}
	needs := func(id string) []string {
		t.Helper()
		i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == id })
		if i < 0 {
			t.Fatalf("there is no step %s", id)
		}
		return steps[i].Needs
	}
	others := []string{keypairStep, serverGroupsStep, volume.Step}
	for id, want := range map[string][]string{
		networkStep: {}, groupsStep: {}, keypairStep: {}, serverGroupsStep: {}, volume.Step: {}, routerStep: {networkStep},
		"ports": {networkStep, groupsStep}, "ports-2": {networkStep, groupsStep, "ports"}, "ports-3": {networkStep, groupsStep, "ports-2"},
		"machine/t3-many-cp-1": append([]string{"ports", routerStep}, others...), "machine/t3-many-w-1": append([]string{"ports-7"}, others...),
		"machine/t3-many-w-60": append([]string{"ports-7"}, others...),
	} {
		slices.Sort(want)
		if got := needs(id); !slices.Equal(got, want) {
			t.Errorf("%s needs %v, want %v", id, got, want)
		}
	}
}

// TestVolumesAhead: volumes are requested before their machines, but not for a machine of which something exists.
func TestVolumesAhead(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc)
	seen, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps(t.Context(), wanted(doc), seen)
	if err != nil {
		t.Fatal(err)
	}
	f.add("volumes", thing{"name": "t3-life-w-1", "status": "in-use", "metadata": thing{
		"naupegos_cluster": "t3-life-0badc0de", "naupegos_machine": "t3-life-w-1",
	}})
	p.known.volumes.Invalidate()
	for _, s := range steps {
		if s.ID == volume.Step {
			if err := s.Run(t.Context(), silent{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	for _, v := range f.kinds["volumes"] {
		names = append(names, v.str("name"))
	}
	if want := []string{"t3-life-w-1", "t3-life-cp-1"}; !slices.Equal(names, want) {
		t.Errorf("volumes %v, want %v", names, want)
	}
}

// TestMarksThatSomebodyChanged: a resource that has lost its description is found by its tag, and one without a tag by its description.
func TestMarksThatSomebodyChanged(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	mark := "naupegos-cluster=t3-life-0badc0de"
	f.add("ports", thing{"name": "both", "description": mark, "tags": []any{mark}})
	f.add("ports", thing{"name": "tag", "description": "mine", "tags": []any{mark}})
	f.add("ports", thing{"name": "description", "description": mark})
	f.add("ports", thing{"name": "neither", "description": mark + "0", "tags": []any{mark + "0"}})
	p := fakeProvider(t, f, fakeDocument(t))
	if err := p.known.ports.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range p.known.ports.All() {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	if want := []string{"both", "description", "tag"}; !slices.Equal(names, want) {
		t.Errorf("found %v, want %v", names, want)
	}
}
