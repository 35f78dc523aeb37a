package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
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
