package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// PlanRemove plans for a document whose groups are smaller by these machines: they go, whatever their index.
func (c *Cluster) PlanRemove(ctx context.Context, machines ...string) (*Applied, error) {
	return c.planDecision(ctx, "remove", wanted.Remove, machines)
}

// PlanReplace plans to put another machine of the same name in each machine's place: the old one is drained where it answers,
// taken out of etcd and Kubernetes, and destroyed before the new one is made.
func (c *Cluster) PlanReplace(ctx context.Context, machines ...string) (*Applied, error) {
	return c.planDecision(ctx, "replace", wanted.Replace, machines)
}

func (c *Cluster) planDecision(ctx context.Context, verb string, decision wanted.Decision, machines []string) (*Applied, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	var names []string
	for _, m := range inv.Machines {
		have[m.Name] = true
		names = append(names, m.Name)
	}
	decided := c.Decided()
	for _, m := range machines {
		if !have[m] {
			return nil, env.ErrNoSuchMachine(m, c.Name(), names)
		}
		decided[m] = decision
	}
	ap, err := c.planApply(ctx, verb, decided)
	if err != nil {
		return nil, err
	}
	if c.ControlPlaneUnseen(ap.Observed) {
		return nil, fail.Wrap(fail.NotReady, cmp.Or(ap.Observed.EtcdErr, ap.Observed.APIErr),
			"%s %s: it can't be foreseen whether the others carry on", verb, strings.Join(machines, ",")).
			Do("naupegos apply brings what is down back; see naupegos status %s", c.Name())
	}
	return ap, nil
}

// planRepairs puts right what is broken, and replaces control-plane machines one after another, when the other ones are well.
func (a *applying) planRepairs() error {
	for _, s := range a.o.Want {
		if old := a.o.Replaced[s.Name]; old != nil {
			if err := a.checkLeaves(a.o, old.Machine, "replace"); err != nil {
				return err
			}
		}
	}
	well := a.planStale()
	a.planOrphans()
	for _, s := range a.o.Want {
		if s.IsControlPlane() && a.o.Mute(s.Name) && a.o.Replaced[s.Name] == nil {
			well = append(well, healthID(s.Name))
		}
	}
	var previous []plan.Need
	for _, s := range a.o.Want {
		if !s.IsControlPlane() || a.o.Replaced[s.Name] == nil {
			continue
		}
		if previous == nil {
			a.add(stagePrepare, a.backupStep("a control-plane machine is replaced", nil))
			previous = plan.IfPlanned(well...)
		}
		unit := append(append(a.replacement(s), a.joining(s)...), a.nodeStep(s, false))
		previous = a.chain(stageRepair, unit, previous...)
	}
	return nil
}

// replacement lists the steps that take a machine out and put another one in its place; none where that was not decided.
func (a *applying) replacement(s wanted.Slot) []*plan.Step {
	old := a.o.Replaced[s.Name]
	if old == nil {
		return nil
	}
	unit := a.retire(a.o, old.Machine, "it is replaced")
	if made := a.made[s.Name]; made != nil { // else the machine outlives its replacement
		other := *made
		other.Action, other.Reason = plan.Replace, "it replaces the old machine"
		unit = append(unit, &other)
	}
	return unit
}

// checkLeaves foresees etcd while a machine leaves it that comes back, before anything is begun.
func (c *Cluster) checkLeaves(o *observe.Observed, m provider.Machine, verb string) error {
	member, ok := o.Member(m.Name)
	if !ok || m.Role != provider.ControlPlane {
		return nil
	}
	if len(o.Members) == 1 {
		return fail.New(fail.Refused, "%s %s: it is the only control-plane machine, and the cluster's data is on it", verb, m.Name).
			Do("set spec.controlPlane.replicas to 3 and apply, then %s it", verb)
	}
	_, err := etcd.CheckReplace(o.Members, o.Health, member.ID, c.viewOf(o, m), true)
	return err
}

// viewOf is what is known of a machine whose member is about to be removed.
func (c *Cluster) viewOf(o *observe.Observed, m provider.Machine) etcd.MachineView {
	if o.Running(m.Name) {
		return drainedView
	}
	return etcd.Gone
}

// consentReplace is what the user must consent to before machines are replaced because the document's shape of them changed.
const consentReplace = "replace-machines"

// Consents lists the names of all consents that plans ask for.
func Consents() []string {
	return []string{provider.ConsentAddresses, ConsentLeave, ConsentLost, ConsentObstacles, env.ConsentBundle, consentReplace}
}

// drifted reports which of the wanted machines differ from the document in ways that only another machine mends, and how.
func (c *Cluster) drifted(o *observe.Observed) (map[string][]string, error) {
	d, ok := c.Prov.(provider.Drifter)
	if !ok || !c.Facts.Bootstrapped() {
		return nil, nil
	}
	want, err := c.WantedMachines(wanted.Own(o.Want))
	if err != nil {
		return nil, err
	}
	return d.Drift(want, o.Inventory), nil
}

// askConsent marks a step that removes a machine which drifted, and says how.
func askConsent(s *plan.Step, how []string) *plan.Step {
	if how == nil || s.Action != plan.Destroy && s.Action != plan.Replace {
		return s
	}
	marked := *s
	marked.Consent = consentReplace
	if s.Action == plan.Replace {
		marked.Details = append(slices.Clone(s.Details), how...)
	}
	return &marked
}

// retire lists the steps that take one machine out, in order. A machine that works is drained, its API server ends, it leaves
// etcd and Kubernetes and then goes. Nobody would confirm that the pods of a dead one have ended: it goes first, and its pods are given up after it.
func (c *Cluster) retire(o *observe.Observed, m provider.Machine, reason string) []*plan.Step {
	return c.retireBy(o, m, reason, c.disposeSteps(o, m, reason))
}

// retireBy is the same where other steps end the machine itself.
func (c *Cluster) retireBy(o *observe.Observed, m provider.Machine, reason string, dispose []*plan.Step) []*plan.Step {
	_, known := o.Nodes[m.Name]
	_, member := o.Member(m.Name)
	dead := o.Dead(m)
	var chain []*plan.Step
	if known && !dead {
		chain = append(chain, c.drainStep(m))
	}
	if m.Role == provider.ControlPlane && !dead && (member || known) {
		chain = append(chain, c.stopServerStep(m.Name))
	}
	if member && m.Role == provider.ControlPlane {
		chain = append(chain, c.removeMemberStep(m.Name, reason, c.viewOf(o, m)))
	}
	if known && !dead {
		chain = append(chain, c.deleteNodeStep(m.Name, reason))
	}
	chain = append(chain, dispose...)
	if known && dead {
		chain = append(chain, c.giveUpNodeStep(m.Name))
	}
	last := chain[len(chain)-1]
	last.Run = c.thenForget(m.Name, last.Run)
	return chain
}

// apiServerManifest is the static pod of a machine's API server.
const apiServerManifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"

// stopServerStep has a machine's API server end in good order before the etcd member that it asks goes. Otherwise it would
// keep its clients, through load balancers that have left it out for new ones, and answer none of them.
func (c *Cluster) stopServerStep(name string) *plan.Step {
	return &plan.Step{
		ID: "apiserver/stop/" + name, Action: plan.Change, Subject: name, Rolling: true, Title: "stop the API server on " + name,
		Reason: "its clients move to the other API servers",
		Run: func(ctx context.Context, p plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err != nil {
				return err
			}
			if _, err := c.Dialer.Run(ctx, h, nil, "rm", "-f", apiServerManifest); err != nil {
				return err
			}
			p.Status("waiting until it has ended")
			_, err = c.Dialer.Run(ctx, h, nil, "pidof", "kube-apiserver")
			var exit *remote.ExitError
			switch {
			case errors.As(err, &exit) && exit.Status == 1:
				return nil // no such process
			case err != nil:
				return err
			}
			return fail.New(fail.NotReady, "the API server still runs").At(name)
		},
	}
}

// disposeSteps ends the machine itself. One that is not ours to destroy is cleaned; where another cluster machine takes its
// place, that is all.
func (c *Cluster) disposeSteps(o *observe.Observed, m provider.Machine, reason string) []*plan.Step {
	var steps []*plan.Step
	replaced := o.Replaced[m.Name] != nil
	keeps, answers := c.Prov.Traits().Keeps, m.State == provider.Running && !o.Silent(m.Name)
	if keeps && (replaced || answers) {
		steps = append(steps, c.resetStep(m))
	}
	if c.Prov.Traits().Stock && answers {
		steps = append(steps, c.cleanStep(m))
	}
	if !keeps || !replaced {
		steps = append(steps, c.endStep(o, m))
	}
	if !keeps {
		steps[0].Reason = reason
	}
	for _, s := range steps {
		s.Rolling, s.Removes = replaced, !replaced
	}
	if len(steps) > 0 {
		steps[0].Run = c.afterForgettingKeys(m.Name, steps[0].Run)
	}
	return steps
}

// endStep ends a machine that is its provider's. One whose place the same machine is to take again was not decided about where the provider can't do that.
func (c *Cluster) endStep(o *observe.Observed, m provider.Machine) *plan.Step {
	old := o.Replaced[m.Name]
	if r, ok := c.Prov.(provider.Reinstaller); ok && old != nil && old.Anew {
		return r.ReinstallMachine(m)
	}
	return c.Prov.DestroyMachine(m)
}

// afterForgettingKeys forgets a machine's certificates and keys before it goes, so that no crash lets another machine of its name inherit
// them: one that was broken into stays out once it is replaced.
func (c *Cluster) afterForgettingKeys(name string, run func(context.Context, plan.Progress) error) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, p plan.Progress) error {
		if err := c.PKI.ForgetMachine(ctx, name); err != nil {
			return err
		}
		return run(ctx, p)
	}
}

// thenForget forgets a machine's decision once it is carried out, and what else was begun with it. What was tried to heal it is forgotten unless
// the machine that takes its place is one of the remedies.
func (c *Cluster) thenForget(name string, run func(context.Context, plan.Progress) error) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, p plan.Progress) error {
		if err := run(ctx, p); err != nil {
			return err
		}
		begun := []memory.Kind{memory.Unclean, memory.Rebooting}
		if !c.Decided()[name].Replaces() {
			begun = append(begun, memory.Repair)
		}
		for _, kind := range begun {
			if err := c.Facts.SetOf(ctx, kind, name, ""); err != nil {
				return err
			}
		}
		if c.Decided()[name] == wanted.Surge { // nobody looks for it any more
			c.SetTarget(slices.DeleteFunc(slices.Clone(c.Known()), func(s wanted.Slot) bool { return s.Name == name }))
		}
		return c.Facts.SetOf(ctx, memory.Decision, name, "")
	}
}

// giveUpNodeStep removes the node of a machine that is gone, and its pods, so that their controllers make others.
func (c *Cluster) giveUpNodeStep(name string) *plan.Step {
	s := c.deleteNodeStep(name, "its machine is gone, and its pods with it")
	s.Title = "delete node " + name + " and its pods"
	s.Run = func(ctx context.Context, p plan.Progress) error {
		client, err := c.Kube(ctx)
		if err != nil {
			return err
		}
		if err := client.DeleteNode(ctx, name); err != nil {
			return err
		}
		pods, err := client.PodsOn(ctx, name)
		if err != nil || len(pods) == 0 {
			return err
		}
		p.Status("deleting %s", words.Count(len(pods), "pod", "pods"))
		var manifests strings.Builder
		for _, pod := range pods {
			fmt.Fprintf(&manifests, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  namespace: %q\n  name: %q\n", pod.Namespace, pod.Name)
		}
		return client.Delete(ctx, []byte(manifests.String()), kube.ApplyOptions{})
	}
	return s
}
