package cluster

import (
	"maps"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// planNodes waits for nodes that are not ready yet, and sets the labels and taints of the document. Other steps wait for the nodes of restarting
// workers and of replaced machines.
func (a *applying) planNodes() {
	for _, s := range a.o.Want {
		if s.Role == provider.Gateway || s.Surge || a.o.Replaced[s.Name] != nil || s.Role == provider.Worker && a.rolls(s) {
			continue
		}
		node, known := a.o.Nodes[s.Name]
		known = known && a.o.Machines[s.Name] != nil // otherwise the node's machine no longer exists
		touched := a.made[s.Name] != nil || !a.upToDate(s) && (a.o.Restarts(s.Name) || a.o.Starts(s.Name))
		// Nodes that an administrator cordoned stay cordoned.
		waits := !known || touched || !node.Ready || a.o.Stale(node) != ""
		if waits || !kube.Marked(node, a.Marks(s)) {
			step := a.NodeStep(s, known)
			if known {
				step.Deltas = kube.MarkDifferences(node, a.Marks(s))
			}
			if !waits {
				step.Reason = "its labels, taints or provider ID differ from the document"
			}
			a.add(stage.Nodes, step, plan.IfPlanned(nodes.APIStep)...)
		}
		if known && node.Annotations[kube.OwnedCordon] != "" { // a change was cut off, or called off
			a.chain(stage.Nodes, a.uncordonSteps(s), plan.IfPlanned(nodes.NodeID(s.Name))...)
		}
	}
}

// planWorkers configures workers that are not as wanted, and replaces drifted workers: at most maxUnavailable serving workers of a pool at a time, one pool
// after another.
func (a *applying) planWorkers() {
	var before []plan.Need // needs of the current pool
	for _, p := range a.Doc.Spec.Workers {
		if after := a.planPool(p.Name, before); len(after) > 0 {
			before = after
		}
	}
}

// planPool configures a pool's workers. Serving workers wait for before, and for the extra machines of the roll. It returns the needs of the last serving
// workers; none if no worker serves.
func (a *applying) planPool(pool string, before []plan.Need) (after []plan.Need) {
	lanes := make([][]plan.Need, a.Doc.Spec.Updates.MaxUnavailable)
	next := 0
	before = append(a.planSurge(pool), before...)
	for _, s := range wanted.Own(a.o.Want) {
		if s.Role != provider.Worker || s.Pool != pool || a.upToDate(s) {
			continue
		}
		st := a.configured(s)
		replaced := a.replacement(s)
		if len(replaced) == 0 && !a.rolls(s) {
			a.add(stage.Workers, st, append(plan.IfPlanned(nodes.APIStep), a.inTurn(s)...)...)
			continue
		}
		if lanes[next] == nil {
			lanes[next] = before
		}
		lanes[next] = a.chain(stage.RollWorkers, a.rolled(s, st, replaced), lanes[next]...)
		next = (next + 1) % len(lanes)
	}
	return slices.Concat(lanes...)
}

// rolled returns the steps that change or replace a serving worker; st configures it.
func (a *applying) rolled(s wanted.Slot, st *plan.Step, replaced []*plan.Step) []*plan.Step {
	st.Rolling = len(replaced) == 0
	unit := slices.Concat(replaced, []*plan.Step{st}, a.joined(s, st.Rolling))
	m := a.o.Machines[s.Name]
	drained := st.Rolling && nodes.EndsPods(m.Report) && a.elsewhere(s)
	if drained {
		unit = slices.Concat([]*plan.Step{a.DrainStep(m.Machine)}, unit)
	}
	if drained || st.Rolling && a.o.Nodes[s.Name].Annotations[kube.OwnedCordon] != "" { // now, or by an apply that was cut off
		unit = append(unit, a.uncordonSteps(s)...)
	}
	return append(unit, a.CheckSteps(s.Name)...)
}

// uncordonSteps admits pods again to a node that was drained for a change of its machine; none if another user had cordoned it before.
func (a *applying) uncordonSteps(s wanted.Slot) []*plan.Step {
	if n := a.o.Nodes[s.Name]; n.Unschedulable && n.Annotations[kube.OwnedCordon] == "" {
		return nil
	}
	return []*plan.Step{a.UncordonStep(s.Name, "it was drained to change its machine")}
}

// elsewhere reports whether the pods of a worker can run on another node in the meantime. If not, they stay where they are.
func (a *applying) elsewhere(s wanted.Slot) bool {
	return slices.ContainsFunc(a.o.Want, func(other wanted.Slot) bool {
		n := a.o.Nodes[other.Name]
		takes := other.Role == provider.Worker || other.IsControlPlane() && a.Doc.Spec.ControlPlane.Schedulable
		return other.Name != s.Name && takes && (other.Surge || n.Ready && !n.Unschedulable)
	})
}

// rolls reports whether a serving worker will restart. A worker whose kubelet is stopped does not serve, even if its node is still Ready.
func (a *applying) rolls(s wanted.Slot) bool {
	seen := a.o.Machines[s.Name]
	return !a.upToDate(s) && seen != nil && seen.Machine.MayRun() && a.o.Nodes[s.Name].Ready && a.o.Restarts(s.Name) && !a.o.Starts(s.Name)
}

// planRemovals takes machines out that are no longer wanted: control-plane machines one after another.
func (a *applying) planRemovals() error {
	var previous []plan.Need
	for _, m := range a.o.Remove {
		chain := a.Retire(a.o, m, "its machine is removed")
		if m.Role != provider.ControlPlane {
			a.chain(stage.Retire, chain)
			continue
		}
		if err := a.CheckRemoval(a.o, m); err != nil {
			return err
		}
		previous = a.chain(stage.Retire, chain, previous...)
	}
	for _, s := range a.o.Want {
		if s.Surge {
			a.chain(stage.Retire, a.retireSurge(s))
		}
	}
	return nil
}

// planOrphans deletes our nodes whose machines no longer exist, before a new machine of the same name registers.
func (a *applying) planOrphans() {
	for _, name := range slices.Sorted(maps.Keys(a.o.Nodes)) {
		if a.o.Machines[name] == nil && a.o.Replaced[name] == nil && a.o.Nodes[name].Annotations[kube.OwnedLabels] != "" {
			a.add(stage.Repair, a.GiveUpNodeStep(name))
		}
	}
}
