package metal

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

const plain = `  provider: {metal: {}}
  endpoint: {kind: address, address: k8s.example.org}
  workers: [{name: general, replicas: 1}]
`

func (k *rack) apply(p *Provider, doc *v1alpha1.Cluster) error {
	ctx := context.Background()
	seen, err := p.Observe(ctx)
	if err != nil {
		return err
	}
	steps, err := p.Steps(ctx, wanted(doc), seen)
	if err == nil && len(steps) > 0 {
		err = p.Preflight(ctx, wanted(doc))
	}
	if err == nil {
		_, err = plan.Execute(ctx, &plan.Plan{Verb: "apply", Cluster: "demo", Steps: steps}, plan.Options{})
	}
	return err
}

func (k *rack) seats(p *Provider) map[string]string {
	out := map[string]string{}
	for _, m := range testkit.Value(p.claimed(context.Background()))(k) {
		out[p.named(m.Claim).Name] = m.Title()
	}
	return out
}

// TestControlPlaneIsWholeOrNot: with two machines of three nothing is taken, and the refusal says of each machine why it can't be used.
func TestControlPlaneIsWholeOrNot(t *testing.T) {
	k, doc := newRack(t, 4), document(t, plain)
	testkit.Value(k.reg.Maintain(t.Context(), uuidOf(2), "fan is loud"))(t)
	k.add(5)
	p := k.provider(doc)
	err := k.apply(p, doc)
	testkit.Fails(t, err, fail.Refused, "Of 5 that are known: 1 in maintenance, 1 not approved, ")
	if strings.Contains(err.Error(), "rack-") || strings.Contains(err.Error(), "loud") {
		t.Errorf("a record of the refusal names machines: %v", err)
	}
	testkit.Fails(t, fail.Whole(err), fail.Refused, "lacks 1", "rack-2: it is in maintenance: fan is loud", "52:54:00:00:00:05: it is not approved", "rack-1: it is taken for another place")
	if got := k.seats(p); len(got) > 0 {
		t.Errorf("given away: %v", got)
	}
	testkit.Value(k.reg.Maintain(t.Context(), uuidOf(2), ""))(t)
	testkit.Must(t, k.apply(p, doc))
	chassis := map[int]bool{}
	for name := range k.seats(p) {
		if strings.HasPrefix(name, "demo-cp-") {
			chassis[k.unitOf(p, name).n%3] = true
		}
	}
	if len(chassis) != 3 {
		t.Errorf("the control plane is in %d chassis of three: %v", len(chassis), k.seats(p))
	}
}

// TestLostMemberCostsOneMachine: and another one than was lost, unless it is only to be installed anew.
func TestLostMemberCostsOneMachine(t *testing.T) {
	k, doc := newRack(t, 6), document(t, plain)
	p := k.provider(doc)
	testkit.Must(t, k.apply(p, doc))
	before := k.seats(p)
	lost := testkit.Value(p.Machine(t.Context(), "demo-cp-2"))(t)
	testkit.Must(t, p.DestroyMachine(lost).Run(t.Context(), mute{}))
	testkit.Must(t, k.apply(p, doc))
	after := k.seats(p)
	if after["demo-cp-2"] == before["demo-cp-2"] {
		t.Errorf("the machine that was given back is there again: %v", after)
	}
	testkit.Must(t, p.ReinstallMachine(testkit.Value(p.Machine(t.Context(), "demo-cp-2"))(t)).Run(t.Context(), mute{}))
	testkit.Must(t, k.apply(p, doc))
	again := k.seats(p)
	if again["demo-cp-2"] != after["demo-cp-2"] {
		t.Errorf("another machine was taken: %s, had %s", again["demo-cp-2"], after["demo-cp-2"])
	}
	for name, m := range before {
		if name != "demo-cp-2" && again[name] != m {
			t.Errorf("%s is %s, was %s", name, again[name], m)
		}
	}
}

// cutStore is a store of machines whose process is killed after so many changes.
type cutStore struct {
	metal.Store
	left *int
}

var errKilled = fail.New(fail.Internal, "killed")

func (c cutStore) dead() bool {
	*c.left--
	return *c.left < 0
}

func (c cutStore) Change(ctx context.Context, uuid string, h metal.How, f func(*metal.Draft) error) (*metal.Machine, error) {
	if c.dead() {
		return nil, errKilled
	}
	return c.Store.Change(ctx, uuid, h, f)
}

func (c cutStore) Assign(ctx context.Context, decide func([]metal.Machine) ([]metal.Assigned, error)) error {
	if c.dead() {
		return errKilled
	}
	return c.Store.Assign(ctx, decide)
}

// TestReinstallCutOff kills the run that reinstalls a machine before each of its changes: the run that continues, apply or repair, in another process, has
// the same machine take its place. What the cluster has decided stands until the machine is gone.
func TestReinstallCutOff(t *testing.T) {
	const name = "demo-cp-1"
	k, doc, ctx := newRack(t, 4), document(t, plain), t.Context()
	doc.Spec.ControlPlane.Replicas = 1
	testkit.Must(t, k.apply(k.provider(doc), doc))
	before := k.seats(k.provider(doc))
	again := func(p *Provider, decided *bool) error {
		seen, err := p.Observe(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(seen.Machines, func(m provider.Machine) bool { return m.Name == name })
		if *decided && i >= 0 {
			if err := p.ReinstallMachine(seen.Machines[i]).Run(ctx, mute{}); err != nil {
				return err
			}
		}
		*decided = false
		return k.apply(p, doc)
	}
	for n, finished := 0, false; !finished; n++ {
		decided, left := true, n
		cut := k.provider(doc)
		cut.o.Registry = registry.New(cutStore{k.st.Metal(), &left}, registry.Options{Power: k, Secrets: k.st.ServerSecrets(), InstallRetries: 2})
		finished = again(cut, &decided) == nil
		testkit.Must(t, again(k.provider(doc), &decided))
		if after := k.seats(k.provider(doc)); !maps.Equal(after, before) {
			t.Fatalf("killed before change %d: %v, were %v", n+1, after, before)
		}
		if finished && n < 8 {
			t.Errorf("it was killed %d times only", n)
		}
	}
	lost := testkit.Value(k.provider(doc).Machine(ctx, name))(t)
	testkit.Must(t, k.provider(doc).DestroyMachine(lost).Run(ctx, mute{}))
	testkit.Must(t, k.apply(k.provider(doc), doc))
	if after := k.seats(k.provider(doc)); after[name] == before[name] {
		t.Errorf("a machine that is lost later on comes again: %v", after)
	}
}

// TestPoolsChoose: by name, label, and what machines say.
func TestPoolsChoose(t *testing.T) {
	k := newRack(t, 5)
	doc := document(t, `  provider:
    metal:
      pools:
        - {name: control-plane, machines: [rack-2, "52:54:00:00:00:04", "`+uuidOf(5)+`"], disk: {minGiB: 100}}
        - {name: general, labels: {disk: nvme}, facts: {serial: "X*"}}
  endpoint: {kind: address, address: k8s.example.org}
  workers: [{name: general, replicas: 1}]
`)
	p := k.provider(doc)
	testkit.Value(k.reg.Label(t.Context(), uuidOf(3), map[string]string{"disk": "nvme"}, nil))(t)
	err := k.apply(p, doc)
	testkit.Fails(t, fail.Whole(err), fail.Refused, "general lacks 1", "rack-1: general wants the label disk=nvme", "rack-3: general wants serial=X*, and it says nothing", "rack-2: it is taken for another place")
	doc.Spec.Provider.Metal.Pools[1].Facts = nil
	testkit.Must(t, k.apply(p, doc))
	got := k.seats(p)
	if got["demo-general-1"] != "rack-3" {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"} {
		if m := got[name]; m != "rack-2" && m != "rack-4" && m != "rack-5" {
			t.Errorf("%s is %s", name, m)
		}
	}
}

// TestInstallationFails: it is tried again as often as the registry lets it, and then the step says why; the next run tries again.
func TestInstallationFails(t *testing.T) {
	k, doc := newRack(t, 4), document(t, plain)
	doc.Spec.ControlPlane.Replicas = 1
	doc.Spec.Provider.Metal.Pools = []v1alpha1.MetalPool{{Name: "control-plane", Machines: []string{"rack-1"}, Strategy: "kexec"}}
	k.fails[uuidOf(1)] = 2
	p := k.provider(doc)
	testkit.Fails(t, k.apply(p, doc), fail.Refused, "demo-cp-1", "its installation failed", "machine journal")
	if m := testkit.Value(p.Machine(t.Context(), "demo-cp-1"))(t); m.State != provider.Failed {
		t.Errorf("%+v", m)
	}
	testkit.Must(t, k.apply(p, doc))
	m := testkit.Value(k.reg.Machine(t.Context(), uuidOf(1)))(t)
	o := m.Record.Order
	if o.Hostname != "demo-cp-1" || o.First != "kexec" || len(o.SSHKeys) != 1 || o.Group != "demo.machines" || m.Record.Strategy.Kind != "kexec" {
		t.Errorf("%+v, %+v", o, m.Record.Strategy)
	}
}

// TestWithoutBMC: an operator has to switch the machine on, and the step says so.
func TestWithoutBMC(t *testing.T) {
	k, doc := newRack(t, 2), document(t, plain)
	doc.Spec.ControlPlane.Replicas = 1
	p := k.provider(doc)
	testkit.Must(t, k.apply(p, doc))
	u := k.unitOf(p, "demo-general-1")
	testkit.Value(k.reg.SetBMC(t.Context(), uuidOf(u.n), registry.BMC{}, nil))(t)
	for _, state := range []string{"on", "kill"} {
		testkit.Fails(t, p.Power(t.Context(), "demo-general-1", state), fail.Refused, "BMC")
	}
	testkit.Must(t, p.Power(t.Context(), "demo-general-1", "off"))
	seen := testkit.Value(p.Observe(t.Context()))(t)
	steps := testkit.Value(p.Steps(t.Context(), wanted(doc), seen))(t)
	if m := testkit.Value(p.Machine(t.Context(), "demo-general-1"))(t); m.State != provider.Unreachable || len(steps) > 0 {
		t.Errorf("%+v, %d steps", m, len(steps))
	}
	if p.Switches(t.Context(), "demo-general-1") || !p.Switches(t.Context(), "demo-cp-1") {
		t.Error("who can be switched is not told")
	}
	testkit.Fails(t, p.Power(t.Context(), "demo-general-1", "off"), fail.Unreachable, "this can't be told from here")
}

// TestSpreadIsForetold: with too few racks the plan says what the loss of one would mean; without any it says that this is unknown.
func TestSpreadIsForetold(t *testing.T) {
	k := newRack(t, 6)
	doc := document(t, strings.Replace(plain, "metal: {}", "metal: {spread: rack}", 1))
	warned := func() string {
		t.Helper()
		p := k.provider(doc)
		testkit.Must(t, p.Preflight(t.Context(), wanted(doc)))
		return strings.Join(p.Warnings(), "\n")
	}
	if got := warned(); got != "" {
		t.Errorf("three switches: %s", got)
	}
	for n := 1; n <= 6; n++ { // machines 1, 2, 4 and 5 are in one rack, 3 and 6 in the other
		testkit.Value(k.reg.Label(t.Context(), uuidOf(n), map[string]string{"rack": []string{"r2", "r1", "r1"}[n%3]}, nil))(t)
	}
	if got := warned(); !strings.Contains(got, "2 of 3 control-plane machines are in r") || !strings.Contains(got, "does not survive") {
		t.Errorf("two racks: %q", got)
	}
	for n := 1; n <= 6; n++ {
		testkit.Value(k.reg.Label(t.Context(), uuidOf(n), nil, []string{"rack"}))(t)
	}
	k.mute = true // no switch says anything
	for n := 1; n <= 6; n++ {
		testkit.Must(t, k.discover(k.units[uuidOf(n)]))
	}
	if got := warned(); !strings.Contains(got, "it is unknown what fails together with the control-plane machines") || !strings.Contains(got, "no label rack") {
		t.Errorf("no racks: %q", got)
	}
	testkit.Must(t, k.apply(k.provider(doc), doc)) // it is a warning
	if got := warned(); !strings.Contains(got, "it is unknown what fails together") {
		t.Errorf("once they are there: %q", got)
	}
}

// TestAssignedByHand: a machine that an operator has installed is not taken, unless it is assigned. Then it is reinstalled, and can neither be
// taken away from the cluster nor get another purpose.
func TestAssignedByHand(t *testing.T) {
	k, doc := newRack(t, 2), document(t, plain)
	ctx := t.Context()
	doc.Spec.ControlPlane.Replicas = 1
	o := &order.Order{Schema: order.Schema, UUID: uuidOf(2), Hostname: "rack-2", System: testkit.Value(k.system(ctx))(t), SSHKeys: []string{"ssh-ed25519 AAAA ann"}}
	testkit.Value(k.reg.SetOrder(ctx, uuidOf(2), o, "ann"))(t)
	testkit.Value(k.reg.SwitchPower(ctx, uuidOf(2), "on", bmc.FromNetwork, "ann"))(t)
	p := k.provider(doc)
	testkit.Fails(t, fail.Whole(k.apply(p, doc)), fail.Refused, "rack-2: an operator had it installed")
	testkit.Must(t, k.reg.Assign(ctx, uuidOf(2), "demo", "general"))
	testkit.Must(t, k.apply(p, doc))
	m := testkit.Value(k.reg.Machine(ctx, uuidOf(2)))(t)
	if got := k.seats(p)["demo-general-1"]; got != "rack-2" || m.Record.Order.Hostname != "demo-general-1" || m.Report.Digest != m.Record.Order.Digest() {
		t.Errorf("%s, %+v, reports %s", got, m.Record.Order, m.Report.Digest)
	}
	again := *m.Record.Order
	again.Hostname = "mine"
	for what, err := range map[string]error{
		"unassign": k.reg.Unassign(ctx, uuidOf(2)), "forget": k.reg.Forget(ctx, uuidOf(2)), "reinstall": second(k.reg.Reinstall(ctx, uuidOf(2), nil, "ann")),
		"install": second(k.reg.SetOrder(ctx, uuidOf(2), &again, "ann")), "install --none": second(k.reg.SetOrder(ctx, uuidOf(2), nil, "ann")),
	} {
		t.Run(what, func(t *testing.T) {
			testkit.Fails(t, err, fail.Refused, "cluster demo uses the machine as demo-general-1")
		})
	}
	for _, m := range testkit.Value(p.Observe(ctx))(t).Machines {
		testkit.Must(t, p.DestroyMachine(m).Run(ctx, mute{}))
	}
	testkit.Must(t, k.reg.Forget(ctx, uuidOf(2)))
}

func second[T any](_ T, err error) error { return err }

// TestLostWithoutPower: a machine that does not answer and can't be switched off is given up only with consent.
func TestLostWithoutPower(t *testing.T) {
	k, doc := newRack(t, 2), document(t, plain)
	doc.Spec.ControlPlane.Replicas = 1
	p := k.provider(doc)
	testkit.Must(t, k.apply(p, doc))
	for name, want := range map[string]string{"demo-cp-1": "", "demo-general-1": provider.ConsentLeave} {
		u := k.unitOf(p, name)
		k.mu.Lock()
		u.on = false
		k.mu.Unlock()
		if want != "" {
			testkit.Value(k.reg.SetBMC(t.Context(), uuidOf(u.n), registry.BMC{}, nil))(t)
		}
		seen := testkit.Value(p.Observe(t.Context()))(t)
		m := seen.Machines[slices.IndexFunc(seen.Machines, func(m provider.Machine) bool { return m.Name == name })]
		if s := p.DestroyMachine(m); s.Consent != want {
			t.Errorf("%s, %s: consent %q", name, m.State, s.Consent)
		}
	}
}

// TestNewerSystem: machines in use take the newest system by their pools' strategies, and nothing else of them changes; one that does not come up is
// left again, and not tried again.
func TestNewerSystem(t *testing.T) {
	k, doc := newRack(t, 4), document(t, strings.Replace(plain, "replicas: 1}", "replicas: 1}, {name: still, replicas: 1}", 1))
	ctx := t.Context()
	doc.Spec.ControlPlane.Replicas = 1
	doc.Spec.Provider.Metal.Pools = []v1alpha1.MetalPool{{Name: "general", Strategy: "poweroff"}, {Name: "still", Strategy: "none"}, {Name: "control-plane", Strategy: "reboot"}}
	p := k.provider(doc)
	testkit.Must(t, k.apply(p, doc))
	if got := testkit.Value(p.Outdated(ctx))(t); len(got) > 0 {
		t.Errorf("outdated from the start: %v", got)
	}
	before := k.seats(p)
	k.newest = "b"
	got := testkit.Value(p.Outdated(ctx))(t)
	if len(got) != 2 || !strings.Contains(got["demo-cp-1"].Why, "sha256:bbbbbbbbbbbb is available") || got["demo-general-1"].Why == "" {
		t.Errorf("outdated: %v", got)
	}
	for name := range got {
		testkit.Must(t, p.Renew(ctx, name, mute{}))
		testkit.Must(t, p.Renew(ctx, name, mute{})) // changes nothing
		if u := k.unitOf(p, name); !u.on || u.renewed != 1 {
			t.Errorf("%s: %+v", name, u)
		}
	}
	testkit.Fails(t, p.Renew(ctx, "demo-still-1", mute{}), fail.Refused, "strategy none")
	if got := testkit.Value(p.Outdated(ctx))(t); len(got) > 0 {
		t.Errorf("outdated still: %v", got)
	}
	k.newest, k.bad = "c", "sha256:"+strings.Repeat("c", 64)
	testkit.Fails(t, p.Renew(ctx, "demo-cp-1", mute{}), fail.Refused, "did not come up", "spec.provider.metal.system")
	u := k.unitOf(p, "demo-cp-1")
	if m := testkit.Value(k.reg.Machine(ctx, uuidOf(u.n)))(t); !strings.HasPrefix(m.Record.Order.System.ID, "sha256:bbb") || m.Record.Wanted != u.installed {
		t.Errorf("it is to have %s, and has %s", m.Record.Order.System.ID, u.installed)
	}
	if n := testkit.Value(p.Outdated(ctx))(t)["demo-cp-1"]; fail.KindOf(n.Never) != fail.Refused {
		t.Errorf("it is tried again: %+v", n)
	}
	if after := k.seats(p); !maps.Equal(before, after) {
		t.Errorf("%v, were %v", after, before)
	}
}

// TestFactsHaveOneName: pools ask by the names that rules ask by.
func TestFactsHaveOneName(t *testing.T) {
	said := registry.FactsOf(&facts.Discovery{})
	for _, name := range v1alpha1.MetalFacts() {
		if _, ok := said[name]; !ok {
			t.Errorf("machines never say %s", name)
		}
	}
	if len(said) != len(v1alpha1.MetalFacts()) {
		t.Errorf("machines say %v, and pools ask for %v", said, v1alpha1.MetalFacts())
	}
}
