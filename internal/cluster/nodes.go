package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/release"
)

// poolLabel names a worker's pool on its node.
const poolLabel = "naupegos.dev/pool"

func nodeID(name string) string { return "node/" + name }

// releaseOf is what a machine runs: the cluster's release, or the older one that its pool stays with.
func (c *Cluster) releaseOf(s wanted.Slot) layout.Release {
	return c.releaseAt(hops.OfPool(c.told(), c.pin(s)))
}

// pin is the release that the document has a machine's pool stay with; empty where it follows the cluster.
func (c *Cluster) pin(s wanted.Slot) string {
	for _, p := range c.doc.Spec.Workers {
		if s.Role == provider.Worker && p.Name == s.Pool {
			return p.Version
		}
	}
	return ""
}

// staying says which pools stay behind a release of the cluster, and with what.
func (c *Cluster) staying(now hops.Releases) (notes []string) {
	for _, p := range c.doc.Spec.Workers {
		if is := hops.OfPool(now, p.Version); is != now.Machines {
			notes = append(notes, fmt.Sprintf("pool %s stays at %s", p.Name, is))
		}
	}
	return notes
}

// poolsRefused says which pools of a cluster that is up would get an older minor than their machines run.
func poolsRefused(f *memory.Facts, was, now *v1alpha1.Cluster) (refused v1alpha1.Refusal) {
	told := toldBy(f, was.Spec.Kubernetes.Version)
	for i, p := range now.Spec.Workers {
		j := slices.IndexFunc(was.Spec.Workers, func(o v1alpha1.Pool) bool { return o.Name == p.Name })
		if j < 0 {
			continue
		}
		runs, to := hops.OfPool(told, was.Spec.Workers[j].Version), hops.OfPool(told, p.Version)
		if release.MinorOf(runs) != release.MinorOf(to) && release.Compare(to, runs) < 0 {
			refused = append(refused, v1alpha1.FieldError{
				Field: fmt.Sprintf("spec.workers[%d].version", i), Problem: fmt.Sprintf("can't change on a living cluster from %s to %s", runs, to),
				Hint: "set it back; a kubelet does not go back a minor: add a pool that begins with it",
			})
		}
	}
	return refused
}

// planNodes waits for nodes that are not ready yet, and gives nodes the labels and taints that the document wants. Those of workers that
// restart and of machines that are replaced are waited for there.
func (a *applying) planNodes() {
	for _, s := range a.o.Want {
		if s.Role == provider.Gateway || s.Surge || a.o.Replaced[s.Name] != nil || s.Role == provider.Worker && a.rolls(s) {
			continue
		}
		node, known := a.o.Nodes[s.Name]
		known = known && a.o.Machines[s.Name] != nil // else it is the node of a machine that is gone
		touched := a.made[s.Name] != nil || !a.upToDate(s) && (a.o.restarts(s.Name) || a.o.starts(s.Name))
		// A node that somebody cordoned stays so: that is theirs to undo.
		if !known || touched || !node.Ready || a.o.stale(node) != "" || !kube.Marked(node, a.marks(s)) {
			a.add(stageNodes, a.nodeStep(s, known), plan.IfPlanned(apiStep)...)
		}
		if known && node.Annotations[kube.OwnedCordon] != "" { // a change was cut off, or called off
			a.chain(stageNodes, a.uncordonSteps(s), plan.IfPlanned(nodeID(s.Name))...)
		}
	}
}

// planWorkers configures workers that are not as wanted: of those that serve at most maxUnavailable of a pool at a time, one pool after another.
// It replaces those that are to be.
func (a *applying) planWorkers() {
	var before []plan.Need // what the pool at hand waits for
	for _, p := range a.doc.Spec.Workers {
		if after := a.planPool(p.Name, before); len(after) > 0 {
			before = after
		}
	}
}

// planPool configures a pool's workers, those that serve after before and once others are there in their stead. It returns the needs of the last ones of these; none where none serves.
func (a *applying) planPool(pool string, before []plan.Need) (after []plan.Need) {
	lanes := make([][]plan.Need, a.doc.Spec.Updates.MaxUnavailable)
	next := 0
	before = append(a.planSurge(pool), before...)
	for _, s := range wanted.Own(a.o.Want) {
		if s.Role != provider.Worker || s.Pool != pool || a.upToDate(s) {
			continue
		}
		st := a.configured(s)
		replaced := a.replacement(s)
		if len(replaced) == 0 && !a.rolls(s) {
			a.add(stageWorkers, st, append(plan.IfPlanned(apiStep), a.inTurn(s)...)...)
			continue
		}
		if lanes[next] == nil {
			lanes[next] = before
		}
		lanes[next] = a.chain(stageRollWorkers, a.rolled(s, st, replaced), lanes[next]...)
		next = (next + 1) % len(lanes)
	}
	return slices.Concat(lanes...)
}

// rolled lists the steps by which a worker that serves is changed, or replaced: configuring it is st.
func (a *applying) rolled(s wanted.Slot, st *plan.Step, replaced []*plan.Step) []*plan.Step {
	st.Rolling = len(replaced) == 0
	unit := slices.Concat(replaced, []*plan.Step{st}, a.joined(s, st.Rolling))
	m := a.o.Machines[s.Name]
	drained := st.Rolling && endsPods(m.Report) && a.elsewhere(s)
	if drained {
		unit = slices.Concat([]*plan.Step{a.drainStep(m.Machine)}, unit)
	}
	if drained || st.Rolling && a.o.Nodes[s.Name].Annotations[kube.OwnedCordon] != "" { // now, or by an apply that was cut off
		unit = append(unit, a.uncordonSteps(s)...)
	}
	return append(unit, a.checkSteps(s.Name)...)
}

// uncordonSteps lets pods onto a node again that was drained for a change of its machine; none where somebody else had cordoned it before.
func (a *applying) uncordonSteps(s wanted.Slot) []*plan.Step {
	if n := a.o.Nodes[s.Name]; n.Unschedulable && n.Annotations[kube.OwnedCordon] == "" {
		return nil
	}
	return []*plan.Step{a.uncordonStep(s.Name, "it was drained to change its machine")}
}

// runtimePrograms run pods.
var runtimePrograms = map[string]bool{"kubelet": true, "containerd": true, "containerd-shim-runc-v2": true, "runc": true}

// endsPods reports whether a change may end pods that run: other programs take them over, or containerd restarts. They don't notice a
// restart of kubelet alone.
func endsPods(r *machine.Report) bool {
	return r != nil && slices.ContainsFunc(r.Changes, func(ch machine.Change) bool {
		return ch.Kind == "binary" && path.Dir(ch.Name) != layout.AheadDir && runtimePrograms[path.Base(ch.Name)] || ch.Kind == "unit" && ch.Name == "containerd.service" && ch.Action != "start"
	})
}

// elsewhere reports whether pods of a worker can run on another node meanwhile: there they are better off, otherwise where they are.
func (a *applying) elsewhere(s wanted.Slot) bool {
	return slices.ContainsFunc(a.o.Want, func(other wanted.Slot) bool {
		n := a.o.Nodes[other.Name]
		takes := other.Role == provider.Worker || other.IsControlPlane() && a.doc.Spec.ControlPlane.Schedulable
		return other.Name != s.Name && takes && (other.Surge || n.Ready && !n.Unschedulable)
	})
}

// rolls reports whether a worker serves and is to be restarted. One whose kubelet was found stopped does not, whatever its node says yet.
func (a *applying) rolls(s wanted.Slot) bool {
	seen := a.o.Machines[s.Name]
	return !a.upToDate(s) && seen != nil && seen.Machine.MayRun() && a.o.Nodes[s.Name].Ready && a.o.restarts(s.Name) && !a.o.starts(s.Name)
}

// restarts reports whether configuring a machine restarts what others depend on.
func (o *Observed) restarts(name string) bool {
	s := o.Machines[name]
	return s == nil || disruptive(s.Report)
}

// starts reports whether configuring a machine starts what others depend on and does not run: it disturbs nobody, but has to be waited for.
func (o *Observed) starts(name string) bool {
	s := o.Machines[name]
	return s != nil && s.Report != nil && slices.ContainsFunc(s.Report.Changes, func(ch machine.Change) bool {
		return ch.Kind == "unit" && servers[ch.Name] && ch.Action == "start"
	})
}

// stale says why what the API tells of a node does not count: its machine or kubelet is down, or was started after it was told; empty where it is not, or nobody knows.
func (o *Observed) stale(n kube.NodeInfo) string {
	s := o.Machines[n.Name]
	switch {
	case s == nil:
		return ""
	case !s.Machine.MayRun():
		return "its machine is " + string(s.Machine.State)
	case s.Report == nil:
		return ""
	}
	return n.Stale(s.Report.Life)
}

func (c *Cluster) nodeStep(s wanted.Slot, known bool) *plan.Step {
	action, title := plan.Create, "join node "+s.Name
	if known {
		action, title = plan.Change, "reconcile node "+s.Name
	}
	return &plan.Step{
		ID: nodeID(s.Name), Action: action, Subject: s.Name, Title: title,
		Reason: "the node must register, be labelled and become Ready", Timeout: c.doc.Spec.Timeouts.NodeReady.Duration + support.LookTime,
		Run: func(ctx context.Context, p plan.Progress) error { return c.bringNode(ctx, s, p) },
	}
}

// bringNode waits until the node is registered, marks it, and waits until it is Ready. Where that takes too long, the machine
// is asked why, in the time that is left for it.
func (c *Cluster) bringNode(ctx context.Context, s wanted.Slot, p plan.Progress) error {
	return support.WaitThenDiagnose(ctx, func(ctx context.Context) error { return c.awaitNode(ctx, s, p) }, func(ctx context.Context, waited error) error {
		p.Status("checking on %s why its node is not ready", s.Name)
		return c.nodeTrouble(ctx, s, waited)
	})
}

func (c *Cluster) awaitNode(ctx context.Context, s wanted.Slot, p plan.Progress) error {
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	p.Status("waiting for kubelet to register")
	if err := c.registered(ctx, client, s, p); err != nil {
		return err
	}
	if _, err := client.Mark(ctx, s.Name, c.marks(s)); err != nil {
		return err
	}
	p.Status("waiting until it is Ready")
	return client.WaitNodeReady(ctx, s.Name, func(ctx context.Context) (machine.Life, error) { return c.life(ctx, s.Name) })
}

// life asks a machine since when it and its kubelet run.
func (c *Cluster) life(ctx context.Context, name string) (machine.Life, error) {
	h, err := c.Host(ctx, name)
	if err != nil {
		return machine.Life{}, err
	}
	return c.dialer.Life(ctx, h)
}

// registered waits for the node object. A control-plane kubelet starts before its API server and may be in a long pause by
// the time it answers; restarting it once makes it try at once.
func (c *Cluster) registered(ctx context.Context, client *kube.Client, s wanted.Slot, p plan.Progress) error {
	if s.IsControlPlane() {
		if err := c.waitServer(ctx, s.Name); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, registrationPause)
		err := client.WaitNode(short, s.Name, kube.Registered)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		p.Status("restarting kubelet so that it registers now")
		h, err := c.Host(ctx, s.Name)
		if err != nil {
			return err
		}
		if _, err := c.dialer.Run(ctx, h, nil, "systemctl", "restart", "kubelet.service"); err != nil {
			return err
		}
	}
	return client.WaitNode(ctx, s.Name, kube.Registered)
}

// kubeAt returns a client of the API server on one control-plane machine, behind the endpoint. Its user needs no RBAC rule:
// a server that has just started does not know any yet, and would refuse to say that it is not ready.
func (c *Cluster) kubeAt(ctx context.Context, name string) (*kube.Client, error) {
	addr, err := c.address(ctx, name)
	if err != nil {
		return nil, err
	}
	at := net.JoinHostPort(addr, strconv.Itoa(apiPort))
	conf, err := layout.Params{ClusterName: c.Name()}.SuperAdminKubeconfig(ctx, c.pki, at)
	if err != nil {
		return nil, err
	}
	h, err := c.Host(ctx, name)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return c.dialer.DialContext(ctx, h, network, addr)
	}
	return kube.NewClient(conf, kube.ClientOptions{Dial: dial})
}

// planRemovals takes machines out that are no longer wanted: control-plane machines one after another.
func (a *applying) planRemovals() error {
	var previous []plan.Need
	for _, m := range a.o.Remove {
		chain := a.retire(a.o, m, "its machine is removed")
		if m.Role != provider.ControlPlane {
			a.chain(stageRetire, chain)
			continue
		}
		if err := a.checkRemoval(a.o, m); err != nil {
			return err
		}
		previous = a.chain(stageRetire, chain, previous...)
	}
	for _, s := range a.o.Want {
		if s.Surge {
			a.chain(stageRetire, a.retireSurge(s))
		}
	}
	return nil
}

// checkRemoval foresees etcd without a machine's member, before anything is begun.
func (c *Cluster) checkRemoval(o *Observed, m provider.Machine) error {
	member, ok := o.member(m.Name)
	if !ok {
		return nil
	}
	_, err := etcd.CheckRemove(o.Members, o.Health, member.ID, c.viewOf(o, m))
	return err
}

// drainStep moves the pods elsewhere.
func (c *Cluster) drainStep(m provider.Machine) *plan.Step {
	return &plan.Step{
		ID: drainPrefix + m.Name, Action: plan.Change, Subject: m.Name, Rolling: true, Title: "drain node " + m.Name,
		Reason: "its pods are evicted, respecting PodDisruptionBudgets", Timeout: c.doc.Spec.Timeouts.Drain.Duration + observeTime(c.doc),
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			o := kube.DrainOptions{Timeout: c.doc.Spec.Timeouts.Drain.Duration, DeleteEmptyDir: true, Own: true}
			if err := drainOnce(ctx, client, m.Name, o, p); err != nil {
				return err
			}
			p.Status("waiting until its volumes are detached")
			if err = client.WaitDetached(ctx, m.Name); fail.KindOf(err) == fail.NotReady {
				return fail.Wrap(fail.Refused, err, "drain %s", m.Name) // waited long enough
			}
			return err
		},
	}
}

// deleteNodeStep removes the node object.
func (c *Cluster) deleteNodeStep(name, reason string) *plan.Step {
	return &plan.Step{
		ID: "node/delete/" + name, Action: plan.Destroy, Subject: name, Title: "delete node " + name, Reason: reason,
		Run: func(ctx context.Context, _ plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			return client.DeleteNode(ctx, name)
		},
	}
}

// planOrphans deletes nodes that we made and whose machine does not exist any more, before a new machine of the name registers.
func (a *applying) planOrphans() {
	for _, name := range slices.Sorted(maps.Keys(a.o.Nodes)) {
		if a.o.Machines[name] == nil && a.o.Replaced[name] == nil && a.o.Nodes[name].Annotations[kube.OwnedLabels] != "" {
			a.add(stageRepair, a.giveUpNodeStep(name))
		}
	}
}
