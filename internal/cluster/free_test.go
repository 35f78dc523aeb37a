package cluster

import (
	"context"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack"
)

// TestLeftoversGoBetweenMachinesAndNetwork: machines would make them anew, and the network can't go while they are in it.
func TestLeftoversGoBetweenMachinesAndNetwork(t *testing.T) {
	doc, err := v1alpha1.Parse("test", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {openstack: {machine: {flavor: f, image: i}}}
  workers: [{name: a}]
`))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, doc)
	os, err := openstack.New(openstack.Options{Cluster: doc, ClusterID: "demo-00000000"})
	if err != nil {
		t.Fatal(err)
	}
	l.prov = os
	nothing := func(context.Context, plan.Progress) error { return nil }
	inv := &provider.Inventory{Machines: []provider.Machine{{Name: "demo-cp-1"}, {Name: "demo-a-1"}}}
	steps, err := l.planLeftovers(t.Context(), os.Destroy(inv), inv.Machines, nil, DestroyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		s.Run = nothing
	}
	p := &plan.Plan{Verb: "destroy", Cluster: "demo", Steps: steps}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	at := func(id string) *plan.Step {
		return steps[slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == id })]
	}
	left, network := at(openstack.LeftoversStep), at(openstack.DestroyNetworkStep)
	if want := []string{"destroy/demo-cp-1", "destroy/demo-a-1"}; !slices.Equal(left.Needs, want) {
		t.Errorf("leftovers wait for %v, not %v", left.Needs, want)
	}
	if !slices.Contains(network.Needs, left.ID) {
		t.Errorf("the network waits for %v only", network.Needs)
	}
}
