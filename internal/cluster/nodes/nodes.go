// Package nodes makes the steps that change one machine of a cluster that is up: it joins, is drained, restarts, is reset, or leaves.
package nodes

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Nodes makes steps for the machines of one cluster.
type Nodes struct {
	*observe.Observer
}

// NodeID is the ID of the step that waits for a node.
func NodeID(name string) string { return "node/" + name }

// NodeStep waits until a machine's node is registered, labelled and Ready.
func (c *Nodes) NodeStep(s wanted.Slot, known bool) *plan.Step {
	action, title := plan.Create, "join node "+s.Name
	if known {
		action, title = plan.Change, "reconcile node "+s.Name
	}
	return &plan.Step{
		ID: NodeID(s.Name), Action: action, Subject: s.Name, Title: title,
		Reason: "the node must register, be labelled and become Ready", Timeout: c.Doc.Spec.Timeouts.NodeReady.Duration + support.LookTime,
		Run: func(ctx context.Context, p plan.Progress) error { return c.bringNode(ctx, s, p) },
	}
}

// bringNode waits until the node is registered, marks it, and waits until it is Ready. If that takes too long, it uses the remaining time to find
// the reason on the machine.
func (c *Nodes) bringNode(ctx context.Context, s wanted.Slot, p plan.Progress) error {
	return support.WaitThenDiagnose(ctx, func(ctx context.Context) error { return c.awaitNode(ctx, s, p) }, func(ctx context.Context, waited error) error {
		p.Status("checking on %s why its node is not ready", s.Name)
		return c.nodeTrouble(ctx, s, waited)
	})
}

func (c *Nodes) awaitNode(ctx context.Context, s wanted.Slot, p plan.Progress) error {
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	p.Status("waiting for kubelet to register")
	if err := c.registered(ctx, client, s, p); err != nil {
		return err
	}
	if _, err := client.Mark(ctx, s.Name, c.Marks(s)); err != nil {
		return err
	}
	p.Status("waiting until it is Ready")
	return client.WaitNodeReady(ctx, s.Name, func(ctx context.Context) (machine.Life, error) { return c.Life(ctx, s.Name) })
}

// Life asks a machine since when it and its kubelet run.
func (c *Nodes) Life(ctx context.Context, name string) (machine.Life, error) {
	h, err := c.Host(ctx, name)
	if err != nil {
		return machine.Life{}, err
	}
	return c.Dialer.Life(ctx, h)
}

// registrationPause is how long a kubelet may take to register before it is restarted: it doubles its pauses between attempts
// up to seven seconds, so one that began long before its API server is sooner there when it begins again.
const registrationPause = 1500 * time.Millisecond

// registered waits for the node object. A control-plane kubelet starts before its API server and may be in a long pause by
// the time it answers; restarting it once makes it try at once.
func (c *Nodes) registered(ctx context.Context, client *kube.Client, s wanted.Slot, p plan.Progress) error {
	if s.IsControlPlane() {
		if err := c.WaitServer(ctx, s.Name); err != nil {
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
		if _, err := c.Dialer.Run(ctx, h, nil, "systemctl", "restart", "kubelet.service"); err != nil {
			return err
		}
	}
	return client.WaitNode(ctx, s.Name, kube.Registered)
}

// Initialized waits until the cloud's controller has initialized nodes, which it does within seconds while it runs.
func (c *Nodes) Initialized(id, what, reason string, names ...string) *plan.Step {
	return &plan.Step{
		ID: id, Action: plan.Wait, Subject: names[0], Title: "wait until the cloud controller manager has initialized " + what,
		Reason: reason, Timeout: c.Doc.Spec.Timeouts.NodeReady.Duration,
		Run: func(ctx context.Context, _ plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			return client.CheckInitialized(ctx, names)
		},
	}
}

// DeleteNodeStep removes the node object.
func (c *Nodes) DeleteNodeStep(name, reason string) *plan.Step {
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

// GiveUpNodeStep deletes the node of a machine that no longer exists, and its pods, so that their controllers create others.
func (c *Nodes) GiveUpNodeStep(name string) *plan.Step {
	s := c.DeleteNodeStep(name, "its machine is gone, and its pods with it")
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

// runtimePrograms run pods.
var runtimePrograms = map[string]bool{"kubelet": true, "containerd": true, "containerd-shim-runc-v2": true, "runc": true}

// EndsPods reports whether a change may end pods that run: other programs take them over, or containerd restarts. They don't notice a
// restart of kubelet alone.
func EndsPods(r *machine.Report) bool {
	return r != nil && slices.ContainsFunc(r.Changes, func(ch machine.Change) bool {
		return ch.Kind == "binary" && path.Dir(ch.Name) != layout.AheadDir && runtimePrograms[path.Base(ch.Name)] || ch.Kind == "unit" && ch.Name == "containerd.service" && ch.Action != "start"
	})
}

// Staying lists the pools that stay behind a release of the cluster, with their own releases.
func (c *Nodes) Staying(now hops.Releases) (notes []string) {
	for _, p := range c.Doc.Spec.Workers {
		if is := hops.OfPool(now, p.Version); is != now.Machines {
			notes = append(notes, fmt.Sprintf("pool %s stays at %s", p.Name, is))
		}
	}
	return notes
}
