package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// retire lists the steps that take one machine out, in order. A machine that works is drained, its API server ends, it leaves
// etcd and Kubernetes and then goes. Nobody would confirm that the pods of a dead one have ended: it goes first, and its pods are given up after it.
func (c *Cluster) retire(o *Observed, m provider.Machine, reason string) []*plan.Step {
	return c.retireBy(o, m, reason, c.disposeSteps(o, m, reason))
}

// retireBy is the same where other steps end the machine itself.
func (c *Cluster) retireBy(o *Observed, m provider.Machine, reason string, dispose []*plan.Step) []*plan.Step {
	_, known := o.Nodes[m.Name]
	_, member := o.member(m.Name)
	dead := o.dead(m)
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
		Reason: "its clients go over to the other ones",
		Run: func(ctx context.Context, p plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err != nil {
				return err
			}
			if _, err := c.dialer.Run(ctx, h, nil, "rm", "-f", apiServerManifest); err != nil {
				return err
			}
			p.Status("waiting until it has ended")
			_, err = c.dialer.Run(ctx, h, nil, "pidof", "kube-apiserver")
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

// dead reports whether a machine's kubelet would not confirm that pods have ended.
func (o *Observed) dead(m provider.Machine) bool {
	if m.State != provider.Running {
		return true
	}
	if n, ok := o.Nodes[m.Name]; ok && !n.Ready {
		return true
	}
	return o.silent(m.Name)
}

// silent reports whether a machine was asked and did not answer.
func (o *Observed) silent(name string) bool {
	s := o.Machines[name]
	if s == nil {
		s = o.Replaced[name]
	}
	return s != nil && fail.KindOf(s.Err) == fail.Unreachable
}

// disposeSteps ends the machine itself. One that is not ours to destroy is cleaned; where another cluster machine takes its
// place, that is all.
func (c *Cluster) disposeSteps(o *Observed, m provider.Machine, reason string) []*plan.Step {
	var steps []*plan.Step
	replaced := o.Replaced[m.Name] != nil
	keeps := c.prov.Traits().Keeps
	if keeps && (replaced || m.State == provider.Running && !o.silent(m.Name)) {
		steps = append(steps, c.resetStep(m))
	}
	if !keeps || !replaced {
		steps = append(steps, c.prov.DestroyMachine(m))
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

// afterForgettingKeys forgets a machine's certificates and keys before it goes, so that no crash lets another machine of its name inherit
// them: one that was broken into stays out once it is replaced.
func (c *Cluster) afterForgettingKeys(name string, run func(context.Context, plan.Progress) error) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, p plan.Progress) error {
		if err := c.pki.ForgetMachine(ctx, name); err != nil {
			return err
		}
		return run(ctx, p)
	}
}

// thenForget forgets a machine's decision once it is carried out, and that it was to be reset.
func (c *Cluster) thenForget(name string, run func(context.Context, plan.Progress) error) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, p plan.Progress) error {
		if err := run(ctx, p); err != nil {
			return err
		}
		if err := c.facts.SetOf(ctx, memory.Unclean, name, ""); err != nil {
			return err
		}
		return c.facts.SetOf(ctx, memory.Decision, name, "")
	}
}

// giveUpNodeStep removes the node of a machine that is gone, and its pods, so that their controllers make others.
func (c *Cluster) giveUpNodeStep(name string) *plan.Step {
	s := c.deleteNodeStep(name, "its machine is gone, and its pods with it")
	s.Title = "delete node " + name + " and give up its pods"
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
		p.Status("giving up %s", plural(len(pods), "pod"))
		var manifests strings.Builder
		for _, pod := range pods {
			fmt.Fprintf(&manifests, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  namespace: %q\n  name: %q\n", pod.Namespace, pod.Name)
		}
		return client.Delete(ctx, []byte(manifests.String()), kube.ApplyOptions{})
	}
	return s
}

// A reset takes Kubernetes off machines that stay. That one was begun is a fact from before its first step until all that it should take away
// is gone: until then nothing is put on such a machine, for what is left there belongs to another cluster than what would come.

// ResetOptions says what is reset.
type ResetOptions struct {
	Machine     string // the only one, which leaves the cluster until the next apply; empty: all
	KeepVolumes bool   // leave the volumes of PersistentVolumeClaims in the cloud
}

var resetRules = []plan.Rule{
	{Stage: stagePrepare}, {Stage: stageFree},
	{Stage: stageClean, Waits: []plan.Stage{stagePrepare, stageFree}},
	{Stage: stageRemove, Waits: []plan.Stage{stageClean}},
	{Stage: stageForget, Waits: []plan.Stage{stageRemove, stageClean, stageFree}},
}

// PlanReset takes Kubernetes off machines and leaves these, their addresses and their network.
func (c *Cluster) PlanReset(ctx context.Context, opts ResetOptions) (*plan.Plan, error) {
	p := &plan.Plan{Verb: "reset", Cluster: c.Name(), Final: opts.Machine == ""}
	var err error
	if opts.Machine != "" {
		p.Steps, err = c.resetOne(ctx, opts.Machine)
	} else {
		p.Steps, err = c.resetAll(ctx, DestroyOptions{KeepVolumes: opts.KeepVolumes})
	}
	return p, err
}

// BeginReset remembers, before the first step of a reset that was agreed to, that it is begun.
func (c *Cluster) BeginReset(ctx context.Context, opts ResetOptions) error {
	if opts.Machine != "" {
		return c.facts.SetOf(ctx, memory.Unclean, opts.Machine, "true")
	}
	return c.facts.Set(ctx, memory.Resetting, "true")
}

// resetAll lists the steps that reset every machine and, last, have the next apply build another cluster.
func (c *Cluster) resetAll(ctx context.Context, opts DestroyOptions) ([]*plan.Step, error) {
	if now, err := c.toldRotation(); err != nil || now.Has(pki.SSHKeyName) && !c.prov.Traits().Given {
		return nil, firstError(err, fail.New(fail.Refused, "the SSH key of cluster %s is being rotated: machines may let in by another key than what is remembered afterwards", c.Name()).
			Do("naupegos apply goes on with that, naupegos certs rotate %s --abandon takes it back; then try again", c.Name()))
	}
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, _ := wanted.Assign(c.doc, inv.Machines, c.decided())
	c.setTarget(want)
	var graph plan.Graph
	given := c.planFree(ctx, &graph, opts)
	cleaned := c.planClean(&graph, inv.Machines, c.leaveUnclean)
	left, err := c.planLeftovers(ctx, nil, cleaned, given, opts)
	if err != nil {
		return nil, err
	}
	for _, s := range left {
		graph.Add(stageRemove, s)
	}
	graph.Add(stageForget, &plan.Step{
		ID: "forget", Action: plan.Destroy, Subject: "cluster", Title: "forget the cluster's authorities, keys and state", Removes: true,
		Reason: "the next apply makes another cluster, which nobody enters by what was of this one",
		Run:    func(ctx context.Context, _ plan.Progress) error { return c.startOver(ctx) },
	})
	return graph.Seal(resetRules)
}

// leaveUnclean is the step for a machine that can't be cleaned: nothing is put on it until it was.
func (c *Cluster) leaveUnclean(m provider.Machine) *plan.Step {
	if c.prov.Traits().Given && c.facts.Of(memory.Host, m.Name) == "" {
		return nil // nothing was ever put on it
	}
	return &plan.Step{
		ID: "leave/" + m.Name, Action: plan.Change, Subject: m.Name, Title: "leave " + m.Name + " as it is", Consent: ConsentLeave,
		Reason:  "it can't be cleaned: it is " + string(m.State),
		Details: []string{"what Naupegos put on it goes on if it comes back", "apply refuses to build on it until naupegos reset --machine has cleaned it"},
		Run: func(ctx context.Context, _ plan.Progress) error {
			return c.facts.SetOf(ctx, memory.Unclean, m.Name, "true")
		},
	}
}

// startOver forgets what made the cluster the one that it was. What machines are reached by stays. It may be repeated: that a reset was begun is
// forgotten last.
func (c *Cluster) startOver(ctx context.Context) error {
	if err := c.pki.StartOver(ctx); err != nil {
		return err
	}
	if c.cloud() != nil {
		if err := c.secrets.Delete(ctx, secretCredential); err != nil {
			return err
		}
	}
	return c.facts.StartOver(ctx, pki.SSHKeyName)
}

// resetOne lists the steps that take one machine out of the cluster as replacing it does, and clean it.
func (c *Cluster) resetOne(ctx context.Context, name string) ([]*plan.Step, error) {
	o, err := c.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return c.resetOneOf(o, name)
}

func (c *Cluster) resetOneOf(o *Observed, name string) ([]*plan.Step, error) {
	var names []string
	for _, m := range o.Inventory.Machines {
		names = append(names, m.Name)
	}
	i := slices.Index(names, name)
	switch {
	case i < 0:
		return nil, errNoSuchMachine(name, c.Name(), names)
	case c.facts.Is(memory.Resetting):
		return nil, c.errResetting()
	}
	m := o.Inventory.Machines[i]
	if m.State != provider.Running {
		return nil, fail.New(fail.Refused, "reset %s: it is %s, and can't be cleaned", name, m.State).
			Do("start it and try again, or put another one in its place: naupegos node replace %s %s", c.Name(), name)
	}
	var graph plan.Graph
	clean := c.resetStep(m)
	clean.Removes = true
	if !c.facts.Bootstrapped() {
		if c.facts.Of(memory.Unclean, name) == "" {
			return nil, errNotBootstrapped(c.Name())
		}
		clean.Run = c.thenForget(name, clean.Run)
		graph.Add(stageClean, clean)
		return graph.Seal(resetRules)
	}
	if err := c.checkReset(o, m); err != nil {
		return nil, err
	}
	if m.Role == provider.ControlPlane {
		graph.Add(stagePrepare, c.backupStep("a control-plane machine is reset", nil))
	}
	clean.Run = c.afterForgettingKeys(name, clean.Run)
	var previous []plan.Need
	for _, s := range c.retireBy(o, m, "it is reset", []*plan.Step{clean}) {
		graph.Add(stageClean, s, previous...)
		previous = plan.After(s.ID)
	}
	return graph.Seal(resetRules)
}

// checkReset foresees whether the others carry on without a machine.
func (c *Cluster) checkReset(o *Observed, m provider.Machine) error {
	if c.controlPlaneUnseen(o) {
		return fail.Wrap(fail.NotReady, firstError(o.EtcdErr, o.APIErr), "reset %s: it can't be foreseen whether the others carry on", m.Name).
			Do("naupegos apply brings what is down back; naupegos reset %s without --machine asks nobody", c.Name())
	}
	if m.Role != provider.Gateway {
		return c.checkLeaves(o, m, "reset")
	}
	for _, other := range o.Inventory.Machines {
		if other.Role == provider.Gateway && other.Name != m.Name && other.State == provider.Running {
			return nil
		}
	}
	return fail.New(fail.Refused, "reset %s: it is the only gateway that runs, and the API is reached through it", m.Name).
		Do("naupegos apply mends what differs on it; naupegos reset %s resets all", c.Name())
}

// errResetting says that a reset has not come to its end.
func (c *Cluster) errResetting() error {
	return fail.New(fail.Refused, "a reset of cluster %s was begun and has not come to its end", c.Name()).
		Do("naupegos reset %s goes on with it; then naupegos apply builds anew", c.Name())
}

// checkUnclean refuses to put anything on machines whose reset has not come to its end: what is left there is another cluster's, or would not
// be what etcd expects of a machine that joins.
func (c *Cluster) checkUnclean(o *Observed) error {
	for _, s := range o.Want {
		if c.facts.Of(memory.Unclean, s.Name) == "" || o.Machines[s.Name] == nil {
			continue
		}
		return fail.New(fail.Refused, "%s was to be reset, and is not clean yet", s.Name).
			Do("naupegos reset %s --machine %s cleans it once it answers; or put another one in its place, or take it out of the document", c.Name(), s.Name)
	}
	return nil
}

// resetNote says where a reset stands; empty where there is none.
func (c *Cluster) resetNote() string {
	if c.facts.Is(memory.Releasing) {
		return "it is being released: naupegos release " + c.Name() + " goes on"
	}
	if c.facts.Is(memory.Resetting) {
		return "begun, and not at its end: naupegos reset " + c.Name() + " goes on"
	}
	return ""
}
