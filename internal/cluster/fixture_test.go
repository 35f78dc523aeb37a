package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/cluster/render"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	testkit.Golden(t, name+".golden", got)
}

// document returns a defaulted document with these numbers of machines.
func document(t *testing.T, controlPlanes, gateways int, pools ...int) *v1alpha1.Cluster {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n")
	workers := 0
	for _, n := range pools {
		workers += n
	}
	fmt.Fprintf(&b, "  controlPlane: {replicas: %d, schedulable: %t}\n", controlPlanes, workers == 0)
	switch {
	case gateways > 0:
		fmt.Fprintf(&b, "  endpoint: {kind: gateways, gateways: {replicas: %d}}\n", gateways)
	case controlPlanes > 1:
		b.WriteString("  endpoint: {kind: address, address: k8s.example.org}\n")
	default:
		b.WriteString("  endpoint: {kind: direct}\n")
	}
	for i, n := range pools {
		if i == 0 {
			b.WriteString("  workers:\n")
		}
		fmt.Fprintf(&b, "    - {name: %c, replicas: %d}\n", 'a'+i, n)
	}
	doc, err := validation.Parse("test", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// cloud is a provider in memory. New machines get an address at once, as local ones do.
type cloud struct {
	machines map[string]provider.Machine
	planned  map[string]bool
	log      []string // created and destroyed machines
	refuse   error    // of Preflight
	odd      []string // its warnings
	drift    map[string][]string
	keeps    bool
	late     bool // a machine's address is unknown until it is created
	stock    bool // machines come from one
	lose     bool // machines take data with them when they are removed
}

func (p *cloud) Traits() provider.Traits {
	return provider.Traits{SharedKernel: true, Keeps: p.keeps, Switched: true, Stock: p.stock}
}
func (p *cloud) Preflight(context.Context, provider.Wanted) error          { return p.refuse }
func (p *cloud) Warnings() []string                                        { return p.odd }
func (p *cloud) VIP(context.Context) (string, error)                       { return "10.0.0.10", nil }
func (p *cloud) Destroy(context.Context, *provider.Inventory) []*plan.Step { return nil }
func (p *cloud) Drift(provider.Wanted, *provider.Inventory) map[string][]string {
	return p.drift
}
func (p *cloud) Observe(context.Context) (*provider.Inventory, error) {
	inv := &provider.Inventory{}
	for _, name := range slices.Sorted(maps.Keys(p.machines)) {
		inv.Machines = append(inv.Machines, p.machines[name])
	}
	return inv, nil
}

func (p *cloud) Power(_ context.Context, name, state string) error {
	p.log = append(p.log, state+" "+name)
	return nil
}

func (p *cloud) Machine(_ context.Context, name string) (provider.Machine, error) {
	if m, ok := p.machines[name]; ok {
		return m, nil
	}
	if p.planned[name] && !p.late {
		return provider.Machine{Name: name, Address: "10.0.1.1", State: provider.Partial}, nil
	}
	return provider.Machine{}, fail.New(fail.NotFound, "no machine %s", name)
}

func (p *cloud) Steps(_ context.Context, want provider.Wanted, seen *provider.Inventory) ([]*plan.Step, error) {
	var steps []*plan.Step
	if p.keeps {
		return nil, nil // the machines exist; their owner created them
	}
	for _, w := range want.Machines {
		i := slices.IndexFunc(seen.Machines, func(m provider.Machine) bool { return m.Name == w.Name })
		if i >= 0 && seen.Machines[i].State == provider.Running {
			continue
		}
		p.planned[w.Name] = true
		s := &plan.Step{ID: provider.MachineStep(w.Name), Action: plan.Create, Subject: w.Name, Title: "boot " + w.Name, Reason: "it does not exist"}
		if i >= 0 {
			s.Action, s.Reason = plan.Change, "it is "+string(seen.Machines[i].State)
		}
		s.Run = func(context.Context, plan.Progress) error {
			p.log = append(p.log, "make "+w.Name)
			p.machines[w.Name] = provider.Machine{Name: w.Name, Role: w.Role, Pool: w.Pool, Index: w.Index, Address: "10.0.1.1", State: provider.Running}
			return nil
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func (p *cloud) DestroyMachine(m provider.Machine) *plan.Step {
	consent := ""
	if p.lose {
		consent = provider.ConsentVolumes
	}
	return &plan.Step{
		Consent: consent,
		ID:      provider.DestroyStep(m.Name), Action: plan.Destroy, Subject: m.Name, Title: "destroy " + m.Name, Reason: "it is no longer wanted",
		Run: func(context.Context, plan.Progress) error {
			p.log = append(p.log, "destroy "+m.Name)
			delete(p.machines, m.Name)
			return nil
		},
	}
}

// lab is a cluster whose environment is in memory.
type lab struct {
	*Cluster
	t     *testing.T
	cloud *cloud
	have  map[string]machine.Config // configurations of existing machines, by name
}

// newLab makes a lab for a document; nothing exists yet.
func newLab(t *testing.T, doc *v1alpha1.Cluster) *lab {
	t.Helper()
	p := &cloud{machines: map[string]provider.Machine{}, planned: map[string]bool{}}
	rec := &store.Cluster{ID: "demo-00000000", Name: doc.Metadata.Name, Facts: store.Facts{}}
	secrets := memory.NewOverlay(nil)
	c := &Cluster{Reporter: &report.Reporter{Removal: &removal.Removal{Staged: &staged.Staged{Addons: &addons.Addons{Keeper: &backups.Keeper{Nodes: &nodes.Nodes{Observer: &observe.Observer{Renderer: &render.Renderer{Conn: &connect.Conn{Env: &env.Env{
		Doc: doc, Record: rec, Facts: memory.NewFacts(rec, nil), Secrets: secrets, PKI: pki.Open(secrets, pki.Options{}),
		Prov: p, Current: &bundle.Bundle{Manifest: bundletest.Manifest(doc.Spec.Kubernetes.Version)}, Find: madeUp, Agent: env.AgentBinary{Digest: "0badcafe"}, StateDir: "state",
		PublicKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
	}}}}}}}}}}}
	c.Plane = allRun{}
	return &lab{Cluster: c, t: t, cloud: p}
}

// allRun is a control plane that always runs with its newest configuration.
type allRun struct{}

func (allRun) Settled(context.Context, string) error            { return nil }
func (allRun) WaitEtcd(context.Context) error                   { return nil }
func (allRun) WaitServer(context.Context, string) error         { return nil }
func (allRun) Runs(_ context.Context, _ string, _ string) error { return nil }

// madeUp makes up the bundle of a release.
func madeUp(_ context.Context, version string) (use, newest *bundle.Bundle, err error) {
	b := &bundle.Bundle{Manifest: bundletest.Manifest(version)}
	return b, b, nil
}

// Running makes all machines of a document exist, as a cluster that came up with it.
func (l *lab) Running(doc *v1alpha1.Cluster) *lab {
	l.t.Helper()
	want, _ := wanted.Assign(doc, nil, nil)
	var initial []string
	for i, s := range want {
		addr := fmt.Sprintf("10.0.0.%d", 20+i)
		l.cloud.machines[s.Name] = provider.Machine{Name: s.Name, Role: s.Role, Pool: s.Pool, Index: s.Index, Address: addr, State: provider.Running}
		if s.IsControlPlane() {
			initial = append(initial, s.Name+"="+connect.PeerURL(addr))
		}
	}
	for k, v := range map[memory.Kind]string{memory.Bootstrapped: "true", memory.EtcdInitial: strings.Join(initial, ","), memory.Smoked: "true"} {
		if err := l.Facts.Set(l.t.Context(), k, v); err != nil {
			l.t.Fatal(err)
		}
	}
	l.Configure(doc, want)
	return l
}

// state sets the state of a machine.
func (l *lab) state(name string, s provider.State) {
	m := l.cloud.machines[name]
	m.State = s
	l.cloud.machines[name] = m
}

// observed returns the observation of a cluster whose machines match the document that configured them; members are the etcd members.
func (l *lab) observed(decided wanted.Decisions, members ...string) *observe.Observed {
	l.t.Helper()
	o, err := l.ObserveInventory(l.t.Context(), decided)
	if err != nil {
		l.t.Fatal(err)
	}
	if !l.Facts.Bootstrapped() {
		return o
	}
	o.Recorded, o.Addons, o.Nodes = true, map[string]bool{observe.AddonApprover: true, observe.AddonFlannel: true}, map[string]kube.NodeInfo{}
	for _, s := range append(slices.Clone(o.Want), slotsOf(o.Remove)...) {
		m, ok := l.cloud.machines[s.Name]
		if !ok {
			continue
		}
		if seen := o.Machines[s.Name]; seen != nil && m.State == provider.Running {
			if c, err := l.configuration(s); err != nil {
				seen.Err = err
			} else {
				seen.Report = &machine.Report{Changes: changes(l.have[s.Name], c)}
			}
		}
		if s.Role != provider.Gateway {
			o.Nodes[s.Name] = l.node(s, m.State == provider.Running)
		}
	}
	for i, name := range members {
		id := uint64(i + 1)
		o.Members = append(o.Members, etcd.Member{ID: id, Name: name, Started: true})
		o.Health = append(o.Health, etcd.Health{ID: id, Name: name, Reachable: l.cloud.machines[name].State == provider.Running})
	}
	return o
}

func slotsOf(ms []provider.Machine) []wanted.Slot {
	var out []wanted.Slot
	for _, m := range ms {
		out = append(out, wanted.Slot{Name: m.Name, Role: m.Role, Pool: m.Pool, Index: m.Index})
	}
	return out
}

// node is a slot's node with the marks that it should carry.
func (l *lab) node(s wanted.Slot, ready bool) kube.NodeInfo {
	m := l.Marks(s)
	n := kube.NodeInfo{Name: s.Name, Ready: ready, Labels: m.Labels, ProviderID: m.ProviderID, Taints: m.Taints, Annotations: map[string]string{
		kube.OwnedLabels: strings.Join(slices.Sorted(maps.Keys(m.Labels)), ","),
	}}
	var taints []string
	for _, t := range m.Taints {
		taints = append(taints, t.Key+":"+t.Effect)
	}
	if len(taints) > 0 {
		n.Annotations[kube.OwnedTaints] = strings.Join(taints, ",")
	}
	return n
}

// plan renders the steps from o to the wanted state by stage, one per line, with their needs.
func (l *lab) plan(o *observe.Observed) (string, error) {
	l.t.Helper()
	machines, err := l.infrastructure(l.t.Context(), o)
	if err != nil {
		return "", err
	}
	steps, err := l.steps(o, machines)
	if err != nil {
		return "", err
	}
	return l.printed(steps), nil
}

// printed renders a plan's steps, as plan does.
func (l *lab) printed(steps []*plan.Step) string {
	l.t.Helper()
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: steps}
	if err := p.Check(); err != nil {
		l.t.Errorf("the plan is faulty: %v", err)
	}
	var b strings.Builder
	var stage plan.Stage
	for _, s := range p.Steps {
		if s.Stage != stage {
			stage = s.Stage
			fmt.Fprintf(&b, "%s:\n", stage)
		}
		fmt.Fprintf(&b, "  %-8s%s", s.Action, s.ID)
		if len(s.Needs) > 0 {
			fmt.Fprintf(&b, "  <- %s", strings.Join(s.Needs, " "))
		}
		fmt.Fprintf(&b, "  (%s)\n", s.Reason)
		if s.Consent != "" {
			fmt.Fprintf(&b, "          consent %s %s\n", s.Consent, strings.Join(s.Details, "; "))
		}
	}
	return b.String()
}

func (l *lab) mustPlan(o *observe.Observed) string {
	l.t.Helper()
	s, err := l.plan(o)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// controlPlanes names the first n control-plane machines.
func controlPlanes(n int) []string {
	var out []string
	for i := 1; i <= n; i++ {
		out = append(out, fmt.Sprintf("demo-cp-%d", i))
	}
	return out
}
