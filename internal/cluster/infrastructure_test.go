package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLooksAtOnce reads the provider's result while another goroutine observes, as status --watch and a step do: for go test -race.
func TestLooksAtOnce(t *testing.T) {
	doc := document(t, 3, 2, 1)
	l := newLab(t, doc).Running(doc)
	testkit.Must(t, l.LoadTarget(t.Context()))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := l.ObserveInventory(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if n := len(l.NamesOf(provider.ControlPlane)); n != 3 {
				t.Errorf("%d control-plane machines", n)
			}
			if _, err := l.Addresses(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestStrangers: apply plans again if a provider reports new machines' addresses only after their creation, because the configurations of
// existing machines contain them.
func TestStrangers(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 2)).Running(document(t, 1, 0, 1))
	o := l.observed(nil, controlPlanes(1)...)
	if !l.addressesPending(t.Context(), o) {
		t.Error("a new machine's address is taken for known")
	}
	if _, err := l.infrastructure(t.Context(), o); err != nil { // from here on it is, as a local machine's
		t.Fatal(err)
	}
	if l.addressesPending(t.Context(), o) {
		t.Error("apply would look again for nothing")
	}
}

// TestStrangersOfAStock: machines of a stock get their addresses when they are installed, so the first apply of a cluster also plans again.
func TestStrangersOfAStock(t *testing.T) {
	for _, stock := range []bool{false, true} {
		l := newLab(t, document(t, 1, 0, 2))
		l.cloud.late, l.cloud.stock = true, stock
		if got := l.addressesPending(t.Context(), l.observed(nil)); got != stock {
			t.Errorf("the first apply looks again: %t, machines come from a stock: %t", got, stock)
		}
	}
}

// housed is a cloud of several places.
type housed struct {
	*cloud
	home string
	err  error
}

func (p *housed) Home(context.Context) (string, error) { return p.home, p.err }

// TestHomeIsSettledFirst: before anything is made it is remembered where, and planning alone remembers nothing.
func TestHomeIsSettledFirst(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	place := &housed{cloud: l.cloud, home: "project region", err: fail.New(fail.Unreachable, "no answer")}
	l.Prov = place
	steps, err := l.infrastructure(t.Context(), l.observed(nil))
	if err != nil || len(steps) == 0 {
		t.Fatalf("%d steps: %v", len(steps), err)
	}
	if err := steps[0].Run(t.Context(), nil); err == nil || len(l.cloud.log) > 0 || l.Facts.Get(memory.Home) != "" {
		t.Errorf("%v is made without a home (%q): %v", l.cloud.log, l.Facts.Get(memory.Home), err)
	}
	place.err = nil
	if err := steps[0].Run(t.Context(), nil); err != nil || len(l.cloud.log) != 1 || l.Facts.Get(memory.Home) != "project region" {
		t.Errorf("%v is made, home is %q: %v", l.cloud.log, l.Facts.Get(memory.Home), err)
	}
}

// scalingDocument returns a document whose pool a scales.
func scalingDocument(t *testing.T) *v1alpha1.Cluster {
	t.Helper()
	doc := document(t, 1, 0, 1, 1)
	one := 1
	doc.Spec.Workers[0].MinReplicas, doc.Spec.Workers[0].MaxReplicas = &one, 3
	return doc
}

// TestScalingPlans: a scaling pool has the decided size, whatever the document's initial size, and only its machines are touched.
func TestScalingPlans(t *testing.T) {
	l := newLab(t, scalingDocument(t)).Running(scalingDocument(t))
	if got := l.mustPlan(l.observed(nil, "demo-cp-1")); got != "" {
		t.Fatalf("nothing is to be done, but:\n%s", got)
	}
	testkit.Must(t, l.Resize(t.Context(), "a", 2))
	golden(t, "scale-pool-up", l.mustPlan(l.observed(nil, "demo-cp-1")))
	pools := testkit.Value(l.Pools(t.Context()))(t)
	if len(pools) != 1 || pools[0].Size != 2 || len(pools[0].Machines) != 2 || !pools[0].Machines[0].Runs || pools[0].Machines[1].Exists {
		t.Errorf("pools: %+v", pools)
	}
	if id := pools[0].Machines[0].ProviderID; id != "naupegos://demo-00000000/demo-a-1" || l.Marks(wanted.Slot{Name: "demo-a-1", Role: provider.Worker, Pool: "a"}).ProviderID != id {
		t.Errorf("the autoscaler knows demo-a-1 as %s, and its node is called otherwise", id)
	}
	if id := l.Marks(wanted.Slot{Name: "demo-b-1", Role: provider.Worker, Pool: "b"}).ProviderID; id != "" {
		t.Errorf("an unknown node has the ID %s", id)
	}
	again := scalingDocument(t)
	staged.StayWith(l.Record, again)
	if n := again.Spec.Workers[0].Count(); n != 2 {
		t.Errorf("the unchanged document means %d machines", n)
	}
	again.Spec.Workers[0].MaxReplicas = 0
	if staged.StayWith(l.Record, again); again.Spec.Workers[0].Count() != 2 {
		t.Error("of a pool that scales no more the document says how many there are")
	}
}

// TestScalingBeyond: an autoscaler's change is refused if apply has other changes. The change's own effects on other machines are allowed, done
// or not.
func TestScalingBeyond(t *testing.T) {
	l := newLab(t, scalingDocument(t)).Running(scalingDocument(t))
	planned := func(size int) *Applied {
		p := scaling.Find(l.Doc, "a")
		now := p.Count()
		defer func() { p.Replicas = &now }()
		p.Replicas = &size
		o := l.observed(nil, "demo-cp-1")
		return &Applied{Plan: &plan.Plan{Steps: testkit.Value(l.steps(o, testkit.Value(l.infrastructure(t.Context(), o))(t)))(t)}, Observed: o}
	}
	beyond := func(before, after *Applied) string {
		if i := slices.IndexFunc(after.Plan.Steps, func(s *plan.Step) bool { return !l.ofPools(before, after)(s) }); i >= 0 {
			return after.Plan.Steps[i].ID
		}
		return ""
	}
	l.state("demo-a-1", provider.Stopped)
	if got := beyond(planned(1), planned(2)); got != "" {
		t.Errorf("a machine of the pool is down, and %s is in the way", got)
	}
	step := func(ap *Applied, id, subject string) *Applied {
		ap.Plan.Steps = append(ap.Plan.Steps, &plan.Step{ID: id, Subject: subject})
		return ap
	}
	if got := beyond(planned(1), step(planned(2), "configure/demo-cp-1", "demo-cp-1")); got != "" {
		t.Errorf("%s is for the pool's sake, and in the way", got)
	}
	if got := beyond(step(planned(1), "configure/demo-cp-1", "demo-cp-1"), step(planned(2), "configure/demo-cp-1", "demo-cp-1")); got != "configure/demo-cp-1" {
		t.Errorf("the control plane differs whatever the pool's size is, and %q is in the way", got)
	}
	l.state("demo-b-1", provider.Stopped)
	if got := beyond(planned(1), planned(2)); got != "machine/demo-b-1" {
		t.Errorf("another machine is down, and %q is in the way", got)
	}
}

// keeping is a provider whose machines keep settings from their creation.
type keeping struct{ *cloud }

func (keeping) Kept(_ context.Context, seen *provider.Inventory) (all []string, _ error) {
	for _, m := range seen.Machines {
		all = append(all, m.Name+" keeps its disk")
	}
	return all, nil
}

// TestPlanSaysWhatIsKept: also if no machine is created, but not for a machine that is replaced.
func TestPlanSaysWhatIsKept(t *testing.T) {
	doc := document(t, 1, 0, 1)
	l := newLab(t, doc).Running(doc)
	l.Prov = keeping{l.cloud}
	for want, decided := range map[string]wanted.Decisions{
		"demo-a-1 keeps its disk,demo-cp-1 keeps its disk": nil, "demo-cp-1 keeps its disk": {"demo-a-1": wanted.Replace},
	} {
		o := l.observed(decided, controlPlanes(1)...)
		if _, err := l.infrastructure(t.Context(), o); err != nil || strings.Join(o.Warnings, ",") != want {
			t.Errorf("%q, %v, want %q", strings.Join(o.Warnings, ","), err, want)
		}
	}
}
