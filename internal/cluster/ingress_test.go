package cluster

import (
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// TestIngressFollowsTheWorkers: gateways pass web traffic to all workers with an address, and are updated later for the others.
func TestIngressFollowsTheWorkers(t *testing.T) {
	doc := document(t, 1, 2, 2)
	doc.Spec.Endpoint.Gateways.Ingress = &v1alpha1.Ingress{HTTPNodePort: 30080, HTTPSNodePort: 30443}
	l := newLab(t, doc).Running(document(t, 1, 2, 1))
	o := l.observed(nil, "demo-cp-1")
	fronts, err := l.IngressFronts(t.Context())
	if err != nil || len(fronts) != 2 || len(fronts[0].Backends) != 1 || fronts[0].Backends[0].Name != "demo-a-1" {
		t.Errorf("a worker's address is not known yet, and traffic is passed to %+v: %v", fronts, err)
	}
	made := &plan.Step{ID: provider.MachineStep("demo-a-2"), Subject: "demo-a-2"}
	o.Machines["demo-gw-1"].Report = nil
	a := l.applying(o, []*plan.Step{made})
	a.planMachines([]*plan.Step{made})
	a.planGateways()
	steps, err := a.graph.Seal(stage.ApplyRules)
	i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == observe.ConfigureID("demo-gw-1") })
	if err != nil || i < 0 || len(steps[i].Needs) > 0 {
		t.Errorf("a gateway, and with it the API, waits for a worker: step %d of %+v: %v", i, steps, err)
	}
	if !l.addressesPending(t.Context(), o) {
		t.Error("the gateways do not learn of the new worker")
	}
	if err := l.Facts.Set(t.Context(), memory.Bootstrapped, ""); err != nil {
		t.Fatal(err)
	}
	if !l.addressesPending(t.Context(), o) {
		t.Error("the gateways do not learn of a cluster's first workers")
	}

	l = newLab(t, doc).Running(doc)
	l.observed(nil, "demo-cp-1")
	fronts, err = l.IngressFronts(t.Context())
	if err != nil || len(fronts) != 2 || fronts[0].Port != 80 || fronts[1].Port != 443 {
		t.Fatalf("%+v: %v", fronts, err)
	}
	for i, port := range []int{30080, 30443} {
		b := fronts[i].Backends
		if len(b) != 2 || b[0].Name != "demo-a-1" || b[1].Name != "demo-a-2" || b[0].Port != port || b[0].Address == b[1].Address {
			t.Errorf("port %d is passed to %+v", fronts[i].Port, b)
		}
	}
	doc.Spec.Endpoint.Gateways.Ingress = nil
	if fronts, err := l.IngressFronts(t.Context()); err != nil || fronts != nil {
		t.Errorf("nothing is wanted, and there are %+v: %v", fronts, err)
	}
}
