package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// oneByOne is a plan of steps that follow each other.
func (c *Cluster) oneByOne(verb string, steps []*plan.Step) *plan.Plan {
	for i, s := range steps {
		if i > 0 {
			s.Needs = append(s.Needs, steps[i-1].ID)
		}
	}
	return &plan.Plan{Verb: verb, Cluster: c.Name(), Steps: steps}
}

// checkNodes refuses work on nodes of a cluster that never came up, whose API does not answer, or that has no such nodes: a step would wait for the API
// for as long as it may take.
func (c *Cluster) checkNodes(ctx context.Context, verb string, nodes []string) error {
	if !c.facts.Bootstrapped() {
		return errNotBootstrapped(c.Name())
	}
	ctx, cancel := context.WithTimeout(ctx, observeTime(c.doc))
	defer cancel()
	for _, name := range nodes {
		client, err := c.Kube(ctx)
		if err == nil {
			_, err = client.Node(ctx, name)
		}
		switch kind := fail.KindOf(err); {
		case err == nil:
		case kind == fail.NotFound:
			return fail.Wrap(kind, err, "cluster %s has no node %s", c.Name(), name).Do("naupegos node list %s shows them", c.Name())
		case kind == fail.Unreachable, kind == fail.NotReady:
			return fail.Wrap(kind, err, "%s: the API of cluster %s does not answer", verb, c.Name()).
				Do("naupegos status %s shows what is down, and naupegos apply brings it back", c.Name())
		default:
			return err
		}
	}
	return nil
}

// PlanCordon keeps new pods away from nodes, or lets them in again.
func (c *Cluster) PlanCordon(ctx context.Context, verb string, nodes []string, on bool) (*plan.Plan, error) {
	if err := c.checkNodes(ctx, verb, nodes); err != nil {
		return nil, err
	}
	var steps []*plan.Step
	for _, name := range nodes {
		s := c.uncordonStep(name, "as requested")
		if on {
			s.ID, s.Title = "cordon/"+name, "cordon node "+name
			s.Run = c.onNode(name, (*kube.Client).Cordon)
		}
		steps = append(steps, s)
	}
	return c.oneByOne(verb, steps), nil
}

// uncordonStep lets new pods onto a node.
func (c *Cluster) uncordonStep(name, reason string) *plan.Step {
	return &plan.Step{
		ID: "uncordon/" + name, Action: plan.Change, Subject: name, Title: "uncordon node " + name, Reason: reason,
		Run: c.onNode(name, (*kube.Client).Uncordon),
	}
}

// onNode is a step that does something with a node.
func (c *Cluster) onNode(name string, do func(*kube.Client, context.Context, string) error) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, _ plan.Progress) error {
		client, err := c.Kube(ctx)
		if err != nil {
			return err
		}
		return do(client, ctx, name)
	}
}

// PlanDrain moves the pods of nodes elsewhere, one node after another, with respect to disruption budgets; the nodes stay cordoned.
func (c *Cluster) PlanDrain(ctx context.Context, verb string, nodes []string, o kube.DrainOptions) (*plan.Plan, error) {
	if err := c.checkNodes(ctx, verb, nodes); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = c.doc.Spec.Timeouts.Drain.Duration
	}
	var steps []*plan.Step
	for _, name := range nodes {
		steps = append(steps, &plan.Step{
			ID: drainPrefix + name, Action: plan.Change, Subject: name, Rolling: true, Title: "drain node " + name, Reason: "as requested",
			Timeout: o.Timeout + observeTime(c.doc),
			Run: func(ctx context.Context, p plan.Progress) error {
				client, err := c.Kube(ctx)
				if err != nil {
					return err
				}
				if _, err := client.Node(ctx, name); err != nil { // draining a node that does not exist would succeed
					return err
				}
				return drainOnce(ctx, client, name, o, p)
			},
		})
	}
	p := c.oneByOne(verb, steps)
	warnOfBudgets(ctx, c, p, nil)
	return p, nil
}

// drainOnce drains a node as a step's only attempt: o.Timeout is all the time that pods have.
func drainOnce(ctx context.Context, client *kube.Client, name string, o kube.DrainOptions, p plan.Progress) error {
	o.Log = func(line string) { p.Status("%s", line) }
	err := client.Drain(ctx, name, o)
	if fail.KindOf(err) == fail.NotReady {
		return fail.Wrap(fail.Refused, err, "drain %s", name) // waited long enough
	}
	return err
}

// PlanPower switches machines, each through states (of provider.Power) one after another, all side by side. fail.Refused where the provider
// can't: nothing is switched off that nobody could switch on again as was asked for.
func (c *Cluster) PlanPower(ctx context.Context, verb string, machines, states []string) (*plan.Plan, error) {
	for _, name := range machines {
		if !slices.Equal(states, []string{"off"}) && !c.switches(ctx, name) {
			return nil, fail.New(fail.Refused, "%s: %s; nothing was changed", verb, c.unswitched()).At(name).
				Do("naupegos machine stop shuts one down; naupegos ssh %s MACHINE -- systemctl reboot reboots it", c.Name())
		}
	}
	titles := map[string]string{"on": "power on machine %s", "off": "shut down machine %s", "kill": "power off machine %s immediately"}
	p := &plan.Plan{Verb: verb, Cluster: c.Name()}
	for _, name := range machines {
		var before []string
		for _, state := range states {
			s := &plan.Step{
				ID: "power/" + state + "/" + name, Action: plan.Change, Subject: name, Rolling: state != "on", Title: fmt.Sprintf(titles[state], name), Reason: "as requested",
				Needs: before, Timeout: c.doc.Spec.Timeouts.MachineBoot.Duration,
				Run: func(ctx context.Context, p plan.Progress) error { return c.prov.Power(ctx, name, state) },
			}
			before = []string{s.ID}
			p.Steps = append(p.Steps, s)
		}
	}
	return p, nil
}

// outdated tells which machines are to have another system, by name; none where their provider can't give them one.
func (c *Cluster) outdated(ctx context.Context, opts UpdateOptions) (map[string]provider.Newer, error) {
	if p, ok := c.prov.(provider.Renewer); ok && !opts.RebootOnly {
		return p.Outdated(ctx)
	}
	return nil, nil
}

// systemStep has a machine take another system. That it restarts is a fact from before, as of reboots.
func (u *updating) systemStep(s wanted.Slot, seen look) *plan.Step {
	return &plan.Step{
		ID: "system/" + s.Name, Action: plan.Change, Subject: s.Name, Rolling: true, Title: "replace the system image of " + s.Name, Reason: seen.newer.Why,
		Details: []string{"it is written to the inactive slot, and the machine restarts; if the new system does not reach its server, the machine returns to the old one"},
		Timeout: seen.newer.Within,
		Run: func(ctx context.Context, p plan.Progress) error {
			if u.facts.Of(memory.Rebooting, s.Name) == "" {
				if err := u.facts.SetOf(ctx, memory.Rebooting, s.Name, seen.BootID); err != nil {
					return err
				}
			}
			return u.prov.(provider.Renewer).Renew(ctx, s.Name, p) //nolint:forcetypeassert // else no machine is outdated
		},
	}
}

// switches reports whether a machine can be switched on, and off at once.
func (c *Cluster) switches(ctx context.Context, name string) bool {
	if p, ok := c.prov.(provider.PartlySwitched); ok {
		return p.Switches(ctx, name)
	}
	return c.prov.Traits().Switched
}

// unswitched says why a machine can't be.
func (c *Cluster) unswitched() string {
	if c.prov.Traits().Switched {
		return "no BMC is configured for the machine"
	}
	return "machines of this provider have no power control"
}

// ConsentQuorum names the consent to switching off so many control-plane machines that etcd loses its quorum.
const ConsentQuorum = "lose-quorum"

// Outage says what switching machines off disturbs.
type Outage struct {
	Words  []string // one sentence each, for people
	Quorum error    // why etcd would lose its quorum, or may: it needs ConsentQuorum; nil where it keeps it
}

// Outage foresees what is disturbed when machines are switched off, all of them at once. Those that are off disturb nothing any more.
func (c *Cluster) Outage(ctx context.Context, machines []string) (*Outage, error) {
	o, err := c.observeInventory(ctx, c.decided())
	if err != nil {
		return nil, err
	}
	off := map[provider.Role][]string{}
	left := map[provider.Role]int{}
	for _, m := range o.Inventory.Machines {
		switch {
		case m.State != provider.Running:
		case slices.Contains(machines, m.Name):
			off[m.Role] = append(off[m.Role], m.Name)
		default:
			left[m.Role]++
		}
	}
	out := &Outage{}
	add := func(format string, args ...any) { out.Words = append(out.Words, fmt.Sprintf(format, args...)) }
	if names := off[provider.Worker]; len(names) > 0 {
		add("%s: pods are not evicted first (naupegos node drain does that); Kubernetes starts them elsewhere only after minutes.", list(names))
	}
	switch names := off[provider.Gateway]; {
	case len(names) == 0:
	case left[provider.Gateway] == 0:
		add("%s: no gateway is left; the API and ingress can't be reached.", list(names))
	default:
		add("%s: connections through it break; another gateway takes over the address.", list(names))
	}
	if names := off[provider.ControlPlane]; len(names) > 0 && c.facts.Bootstrapped() {
		if err := c.observeEtcd(ctx, o); err != nil {
			return nil, err
		}
		after, err := quorumWithout(o, names)
		if out.Quorum = err; err == nil {
			add("%s: etcd keeps its quorum: %s.", list(names), after)
		} else {
			add("%s: etcd stops, and with it the API: %v.", list(names), err)
		}
	}
	return out, nil
}

func list(names []string) string { return strings.Join(names, ", ") }

// quorumWithout projects etcd without machines: an error where it has no quorum then, or where that can't be told.
func quorumWithout(o *Observed, machines []string) (etcd.Projection, error) {
	if o.EtcdErr != nil {
		return etcd.Projection{}, fail.Wrap(fail.Refused, o.EtcdErr, "it can't be foreseen whether etcd keeps its quorum")
	}
	health := slices.Clone(o.Health)
	after := etcd.Now(o.Members, health)
	for _, name := range machines {
		m, ok := o.member(name)
		if !ok {
			continue
		}
		var err error
		if after, err = etcd.Project(o.Members, health, etcd.Change{Action: etcd.Stop, ID: m.ID}); err != nil {
			return after, err
		}
		health = slices.DeleteFunc(health, func(h etcd.Health) bool { return h.ID == m.ID }) // only what is known to be good counts
	}
	return after, nil
}

// NodeRow is one machine with the node on it; or a node whose machine is not ours.
type NodeRow struct {
	Name    string    `json:"name"`
	Role    string    `json:"role,omitempty"`
	Pool    string    `json:"pool,omitempty"`
	Address string    `json:"address,omitempty"`
	State   string    `json:"state,omitempty"` // of the machine: the provider's word, or "missing", "unwanted"; empty: not ours
	Node    string    `json:"node,omitempty"`  // "Ready", "Ready, cordoned", or why not; empty for gateways and where it can't be told
	Version string    `json:"version,omitempty"`
	Created time.Time `json:"created,omitzero"` // of the node
}

// NodeList is what NodeList found.
type NodeList struct {
	Nodes   []NodeRow
	Problem string // why the Kubernetes API does not answer; empty where it does
}

// NodeList lists machines and nodes. It does not ask the machines themselves.
func (c *Cluster) NodeList(ctx context.Context) (*NodeList, error) {
	o, err := c.observeInventory(ctx, c.decided())
	if err != nil {
		return nil, err
	}
	if err := c.observeAPI(ctx, o); err != nil {
		return nil, err
	}
	list := &NodeList{}
	if o.APIErr != nil {
		list.Problem = o.APIErr.Error()
	}
	for _, s := range o.expected() {
		r := NodeRow{Name: s.Name, Role: string(s.Role), Pool: s.Pool, State: "missing"}
		if m := o.machine(s.Name); m != nil {
			r.Address, r.State = m.Address, string(m.State)
		}
		list.Nodes = append(list.Nodes, o.withNode(r))
	}
	for _, m := range o.Remove {
		list.Nodes = append(list.Nodes, o.withNode(NodeRow{Name: m.Name, Role: string(m.Role), Pool: m.Pool, Address: m.Address, State: "unwanted"}))
	}
	var others []NodeRow
	for name, n := range o.Nodes {
		if slices.ContainsFunc(list.Nodes, func(r NodeRow) bool { return r.Name == name }) {
			continue
		}
		others = append(others, o.withNode(NodeRow{Name: name, Role: strings.Join(n.Roles, ","), Address: strings.Join(n.Addresses, ",")}))
	}
	slices.SortFunc(others, func(a, b NodeRow) int { return strings.Compare(a.Name, b.Name) })
	list.Nodes = append(list.Nodes, others...)
	return list, nil
}

// machine returns a machine of the inventory; nil where there is none of this name.
func (o *Observed) machine(name string) *provider.Machine {
	i := slices.IndexFunc(o.Inventory.Machines, func(m provider.Machine) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &o.Inventory.Machines[i]
}

// withNode adds what the API says.
func (o *Observed) withNode(r NodeRow) NodeRow {
	n, ok := o.Nodes[r.Name]
	switch {
	case ok:
		r.Node, r.Version, r.Created = o.nodeWords(n), n.Version, n.Created
	case o.Nodes != nil && r.Role != string(provider.Gateway):
		r.Node = "not registered"
	}
	return r
}

func (o *Observed) nodeWords(n kube.NodeInfo) string {
	w, stale := "Ready", o.stale(n)
	switch {
	case !n.Ready:
		w = "not ready: " + n.Reason
	case stale != "":
		w = "not ready: " + stale
	}
	if n.Unschedulable {
		w += ", cordoned"
	}
	return w
}

// MachineList lists the cluster's machines as the provider finds them, and what else of the cluster exists there.
func (c *Cluster) MachineList(ctx context.Context) ([]provider.Machine, []string, error) {
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	return inv.Machines, inv.Others, nil
}

// CheckMachines returns the names as they are, or those of all machines where none is given: fail.NotFound where one is not
// a machine of the cluster.
func (c *Cluster) CheckMachines(ctx context.Context, names []string) ([]string, error) {
	ms, _, err := c.MachineList(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	known := map[string]bool{}
	for _, m := range ms {
		all = append(all, m.Name)
		known[m.Name] = true
	}
	if len(names) == 0 {
		return all, nil
	}
	for _, n := range names {
		if !known[n] {
			return nil, errNoSuchMachine(n, c.Name(), all)
		}
	}
	return names, nil
}
