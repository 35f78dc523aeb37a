package nodes

import (
	"context"
	"errors"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// ConsentLeave names the consent to forgetting machines that outlive the cluster, do not answer, and so can't be cleaned.
const ConsentLeave = provider.ConsentLeave

// ConsentReplace is the consent to replace machines because the document's shape of them changed.
const ConsentReplace = "replace-machines"

// drainedView is the view of a machine whose node has just been drained.
const drainedView = etcd.Drained

// CheckLeaves foresees etcd while a machine leaves it that comes back, before anything is begun.
func (c *Nodes) CheckLeaves(o *observe.Observed, m provider.Machine, verb string) error {
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

// CheckRemoval foresees etcd without a machine's member, before anything is begun.
func (c *Nodes) CheckRemoval(o *observe.Observed, m provider.Machine) error {
	member, ok := o.Member(m.Name)
	if !ok {
		return nil
	}
	_, err := etcd.CheckRemove(o.Members, o.Health, member.ID, c.viewOf(o, m))
	return err
}

// viewOf returns the view, for etcd, of a machine whose member is about to be removed.
func (c *Nodes) viewOf(o *observe.Observed, m provider.Machine) etcd.MachineView {
	if o.Running(m.Name) {
		return drainedView
	}
	return etcd.Gone
}

// Drifted returns the wanted machines that differ from the document in ways that only replacement can fix, with the differences.
func (c *Nodes) Drifted(o *observe.Observed) (map[string][]string, error) {
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

// AskConsent adds a consent to a step that removes or replaces a machine that drifted; how lists the differences. A removal that takes data with it
// keeps its own consent: the step that makes the new machine asks for this one.
func AskConsent(s *plan.Step, how []string) *plan.Step {
	if how == nil || s.Action != plan.Destroy && s.Action != plan.Replace {
		return s
	}
	marked := *s
	if marked.Consent == "" {
		marked.Consent = ConsentReplace
	}
	if s.Action == plan.Replace {
		marked.Details = append(slices.Clone(s.Details), how...)
	}
	return &marked
}

// Retire returns the steps that remove one machine, in order. A working machine is drained, its API server stops, it leaves etcd and Kubernetes,
// and then it is removed. A dead machine is removed first and its pods are deleted afterwards, because no kubelet would confirm that they have
// ended.
func (c *Nodes) Retire(o *observe.Observed, m provider.Machine, reason string) []*plan.Step {
	return c.RetireBy(o, m, reason, c.DisposeSteps(o, m, reason))
}

// RetireBy is the same where other steps end the machine itself.
func (c *Nodes) RetireBy(o *observe.Observed, m provider.Machine, reason string, dispose []*plan.Step) []*plan.Step {
	_, known := o.Nodes[m.Name]
	_, member := o.Member(m.Name)
	dead := o.Dead(m)
	var chain []*plan.Step
	if known && !dead {
		chain = append(chain, c.DrainStep(m))
	}
	if m.Role == provider.ControlPlane && !dead && (member || known) {
		chain = append(chain, c.stopServerStep(m.Name))
	}
	if member && m.Role == provider.ControlPlane {
		chain = append(chain, c.RemoveMemberStep(m.Name, reason, c.viewOf(o, m)))
	}
	if known && !dead {
		chain = append(chain, c.DeleteNodeStep(m.Name, reason))
	}
	chain = append(chain, dispose...)
	if known && dead {
		chain = append(chain, c.GiveUpNodeStep(m.Name))
	}
	last := chain[len(chain)-1]
	last.Run = c.ThenForget(m.Name, last.Run)
	return chain
}

// apiServerManifest is the static pod of a machine's API server.
const apiServerManifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"

// stopServerStep stops a machine's API server gracefully before its etcd member is removed. Otherwise it would
// keep its clients, through load balancers that have left it out for new ones, and answer none of them.
func (c *Nodes) stopServerStep(name string) *plan.Step {
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

// DisposeSteps ends the machine itself. One that is not ours to destroy is cleaned; where another cluster machine takes its
// place, that is all.
func (c *Nodes) DisposeSteps(o *observe.Observed, m provider.Machine, reason string) []*plan.Step {
	var steps []*plan.Step
	replaced := o.Replaced[m.Name] != nil
	keeps, answers := c.Prov.Traits().Keeps, m.State == provider.Running && !o.Silent(m.Name)
	if keeps && (replaced || answers) {
		steps = append(steps, c.ResetStep(m))
	}
	if c.Prov.Traits().Stock && answers {
		steps = append(steps, c.CleanStep(m))
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
		steps[0].Run = c.AfterForgettingKeys(m.Name, steps[0].Run)
	}
	return steps
}

// endStep removes a provider's machine. A reinstallation is decided only if the provider supports it.
func (c *Nodes) endStep(o *observe.Observed, m provider.Machine) *plan.Step {
	old := o.Replaced[m.Name]
	if r, ok := c.Prov.(provider.Reinstaller); ok && old != nil && old.Anew {
		return r.ReinstallMachine(m)
	}
	return c.Prov.DestroyMachine(m)
}

// AfterForgettingKeys forgets a machine's certificates and keys before its removal, so that no crash lets another machine of its name inherit
// them: one that was broken into stays out once it is replaced.
func (c *Nodes) AfterForgettingKeys(name string, run func(context.Context, plan.Progress) error) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, p plan.Progress) error {
		if err := c.PKI.ForgetMachine(ctx, name); err != nil {
			return err
		}
		return run(ctx, p)
	}
}

// ThenForget deletes a machine's decision once it is executed, with everything else that belongs to it. It deletes the repair attempts unless the
// replacement is one of them.
func (c *Nodes) ThenForget(name string, run func(context.Context, plan.Progress) error) func(context.Context, plan.Progress) error {
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
		if c.Decided()[name] == wanted.Surge { // the machine has no other use
			c.SetTarget(slices.DeleteFunc(slices.Clone(c.Known()), func(s wanted.Slot) bool { return s.Name == name }))
		}
		return c.Facts.SetOf(ctx, memory.Decision, name, "")
	}
}

// ResetID is the ID of the step that resets a machine.
func ResetID(name string) string { return "reset/" + name }

// ResetStep cleans a machine that outlives the cluster.
func (c *Nodes) ResetStep(m provider.Machine) *plan.Step {
	return &plan.Step{
		ID: ResetID(m.Name), Action: plan.Destroy, Subject: m.Name, Title: "clean " + m.Name,
		Reason: "the machine stays, and what Naupegos installed on it is removed",
		Run: func(ctx context.Context, _ plan.Progress) error {
			h, err := c.Host(ctx, m.Name)
			if err != nil {
				return err
			}
			args := []string{"reset"}
			if !c.Prov.Traits().Given { // a machine from before a rotation has the former key
				args = append(args, "--keep", connect.AuthorizedKeysPath)
			}
			if _, err = c.Dialer.Agent(ctx, h, nil, args...); err != nil {
				return err
			}
			return c.Facts.SetOf(ctx, memory.Unclean, m.Name, "")
		},
	}
}

// CleanStep cleans a machine that returns to a stock. A machine with power control is not cleaned: it is reinstalled before its next use.
func (c *Nodes) CleanStep(m provider.Machine) *plan.Step {
	s := c.ResetStep(m)
	s.Reason = "it goes back to the stock, and what Naupegos installed on it is removed"
	clean := s.Run
	s.Run = func(ctx context.Context, p plan.Progress) error {
		err := clean(ctx, p)
		if err != nil && ctx.Err() == nil && c.Switches(ctx, m.Name) {
			p.Status("it can't be cleaned and is powered off as it is: %v", err)
			return nil
		}
		return err
	}
	return s
}

// DrainStep moves the pods elsewhere.
func (c *Nodes) DrainStep(m provider.Machine) *plan.Step {
	return &plan.Step{
		ID: drainPrefix + m.Name, Action: plan.Change, Subject: m.Name, Rolling: true, Title: "drain node " + m.Name,
		Reason: "its pods are evicted, respecting PodDisruptionBudgets", Timeout: c.Doc.Spec.Timeouts.Drain.Duration + env.ObserveTime(c.Doc),
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			o := kube.DrainOptions{Timeout: c.Doc.Spec.Timeouts.Drain.Duration, DeleteEmptyDir: true, Own: true}
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

// drainOnce drains a node as a step's only attempt: o.Timeout is all the time that pods have.
func drainOnce(ctx context.Context, client *kube.Client, name string, o kube.DrainOptions, p plan.Progress) error {
	o.Log = func(line string) { p.Status("%s", line) }
	err := client.Drain(ctx, name, o)
	if fail.KindOf(err) == fail.NotReady {
		return fail.Wrap(fail.Refused, err, "drain %s", name) // waited long enough
	}
	return err
}
