package nodes

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// gateLook is how long a gate waits before it also looks on the machine for the reason: a server that ends at once runs for a moment, and after that the gate would wait only for
// its answer.
const gateLook = 30 * time.Second

// Gate waits until this control-plane machine serves again. It asks the machine itself: kubelet takes a moment to notice a changed manifest, and until then
// the former servers still answer.
func (c *Nodes) Gate(name, reason string) *plan.Step {
	return &plan.Step{
		ID: HealthID(name), Action: plan.Wait, Subject: name, Title: "wait until the control plane on " + name + " is ready", Reason: reason,
		Run: func(ctx context.Context, p plan.Progress) error {
			within, cancel := context.WithTimeout(ctx, gateLook)
			err := observe.Serving(within, c.Plane, []string{name}, p)
			late := within.Err() != nil
			cancel()
			if err != nil && late && ctx.Err() == nil {
				err = fail.Wrap(fail.NotReady, err, "wait for the control plane on %s", name)
			}
			if fail.KindOf(err) != fail.NotReady || ctx.Err() != nil {
				return err
			}
			return c.serverTrouble(ctx, name, err)
		},
	}
}

// WithNode makes the gate of a machine whose kubelet restarts wait for its node, too: what keeps a kubelet from starting must not reach the next machine.
func (c *Nodes) WithNode(gate *plan.Step, s wanted.Slot) *plan.Step {
	run := gate.Run
	gate.Run = func(ctx context.Context, p plan.Progress) error {
		if err := run(ctx, p); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, c.Doc.Spec.Timeouts.NodeReady.Duration+support.LookTime)
		defer cancel()
		return c.bringNode(ctx, s, p)
	}
	return gate
}

// AfterOthers makes a step that restarts servers wait until the other control-plane machines run their rendered pods, whichever apply rendered them, and
// until etcd can spare the machine's member. It does not wait longer for members that were unhealthy before.
func (c *Nodes) AfterOthers(s *plan.Step, o *observe.Observed) {
	var others []string
	for _, m := range o.Want {
		if m.IsControlPlane() && m.Name != s.Subject && !c.Joins(o, m) && o.Serves(m.Name) && o.Machines[m.Name].UpToDate() {
			others = append(others, m.Name)
		}
	}
	well := !slices.ContainsFunc(o.Health, func(h etcd.Health) bool { return !h.OK() })
	run := s.Run
	s.Run = func(ctx context.Context, p plan.Progress) error {
		if len(others) > 0 {
			p.Status("waiting until the other control-plane machines are ready")
		}
		for _, name := range others {
			if err := c.Plane.Settled(ctx, name); err != nil {
				return err
			}
		}
		if well {
			if err := c.WaitEtcd(ctx); err != nil {
				return err
			}
		}
		if err := c.MayStop(ctx, s.Subject, observe.EndsEtcd(o.Machines[s.Subject].Report)); err != nil {
			return err
		}
		return run(ctx, p)
	}
}

// MayStop is fail.NotReady while etcd would lose its quorum without a machine's member: the only one may. A leader that is to stop hands over first.
func (c *Nodes) MayStop(ctx context.Context, name string, stops bool) error {
	return c.WithEtcd(ctx, func(e *etcd.Client) error {
		members, err := e.Members(ctx)
		if err != nil {
			return err
		}
		health := e.Health(ctx, members)
		if err := Stoppable(members, health, name); err != nil || !stops || etcd.Now(members, health).Voters == 1 {
			return err
		}
		return handOver(ctx, e, members, name)
	})
}

// GatewayGate returns a step that waits until this gateway forwards the API and the API answers through the endpoint.
func (c *Nodes) GatewayGate(name string) *plan.Step {
	return &plan.Step{
		ID: HealthID(name), Action: plan.Wait, Subject: name, Title: "wait until " + name + " reaches the API", Reason: "one gateway at a time",
		Run: func(ctx context.Context, p plan.Progress) error {
			p.Status("waiting until HAProxy on %s reaches an API server", name)
			if err := c.CheckGateway(ctx, name); err != nil {
				return err
			}
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			p.Status("waiting for %s/readyz", client.Server())
			return client.WaitReady(ctx)
		},
	}
}

// CheckGateway asks a gateway whether its HAProxy reaches an API server.
func (c *Nodes) CheckGateway(ctx context.Context, name string) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.Dialer.Agent(ctx, h, nil, "gateway-check", "--url", gateway.Params{}.HealthURL())
	}
	return err
}

// apiTroubleTime is the age up to which complaints count if the API does not answer.
const apiTroubleTime = 15 * time.Minute

// APITrouble adds the failed units of the control-plane machines and their last log lines to waited, the error of an API that did not answer in time. The
// result is final.
func (c *Nodes) APITrouble(ctx context.Context, waited error) error {
	r, err := support.NewRedactor(ctx, c.Secrets)
	if err != nil {
		return err
	}
	names := c.NamesOf(provider.ControlPlane)
	found := make([]support.Trouble, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			h, err := c.Host(ctx, name)
			if err != nil {
				found[i].Unseen = err
				return
			}
			found[i] = support.LookForTrouble(ctx, c.Dialer, h, r, apiTroubleTime)
		})
	}
	wg.Wait()
	return support.NoAPIBecause(c.Name(), names, waited, found)
}

// serverTrouble makes waited final once a program of the control plane on a machine can't run, and adds its last log lines.
func (c *Nodes) serverTrouble(ctx context.Context, name string, waited error) error {
	h, err := c.Host(ctx, name)
	if err != nil {
		return waited
	}
	r, err := support.NewRedactor(ctx, c.Secrets)
	if err != nil {
		return waited
	}
	return support.ServersBecause(ctx, c.Dialer, h, r, name, waited)
}

// nodeTrouble adds the state of the machine's units and their last log lines to waited, the error of a wait that took too long. The result is final.
func (c *Nodes) nodeTrouble(ctx context.Context, s wanted.Slot, waited error) error {
	if fail.KindOf(waited) != fail.NotReady { // the API does not answer; this machine may be healthy
		return fail.Wrap(fail.KindOf(waited), waited, "bring the node in").Enough()
	}
	h, err := c.Host(ctx, s.Name)
	if err != nil {
		return support.NotReadyBecause(s.Name, c.Name(), waited, support.Trouble{Unseen: err})
	}
	r, err := support.NewRedactor(ctx, c.Secrets)
	if err != nil {
		return err
	}
	return support.NotReadyBecause(s.Name, c.Name(), waited, support.LookForTrouble(ctx, c.Dialer, h, r, c.Doc.Spec.Timeouts.NodeReady.Duration))
}

// ObserveControlPlane observes the API and etcd, and returns an error unless both answer: without them it is unknown whether the others carry on.
func (c *Nodes) ObserveControlPlane(ctx context.Context, o *observe.Observed, verb string) error {
	var g errgroup.Group
	g.Go(func() error { return c.ObserveAPI(ctx, o) })
	g.Go(func() error { return c.ObserveEtcd(ctx, o) })
	if err := g.Wait(); err != nil {
		return err
	}
	if !c.ControlPlaneUnseen(o) {
		return nil
	}
	return fail.Wrap(fail.NotReady, cmp.Or(o.EtcdErr, o.APIErr), "%s %s: it can't be foreseen whether the others carry on", verb, c.Name()).
		Do("naupegos apply repairs it; see naupegos status %s", c.Name())
}
