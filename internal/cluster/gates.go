package cluster

import (
	"context"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/plan"
)

func healthID(name string) string { return "health/" + name }

// gate lets what follows begin only when this control-plane machine works again, by what it says itself now: kubelet takes a moment to see
// that a manifest has changed, during which the servers of before still answer.
func (c *Cluster) gate(name, reason string) *plan.Step {
	return &plan.Step{
		ID: healthID(name), Action: plan.Wait, Subject: name, Title: "wait until " + name + " serves again", Reason: reason,
		Run: func(ctx context.Context, p plan.Progress) error {
			p.Status("waiting until kubelet on %s has started what its manifests say", name)
			if err := c.settled(ctx, name); err != nil {
				return err
			}
			p.Status("waiting for etcd and the API server on %s", name)
			if err := c.waitEtcd(ctx); err != nil {
				return err
			}
			if err := c.waitServer(ctx, name); err != nil {
				return err
			}
			// The controller manager and the scheduler end when they can't renew their leases, and kubelet starts them again after a while.
			p.Status("waiting until all of the control plane runs on %s", name)
			return c.settled(ctx, name)
		},
	}
}

// settled is fail.NotReady while kubelet on a control-plane machine has not started the static pods that lie there now.
func (c *Cluster) settled(ctx context.Context, name string) error {
	h, err := c.Host(ctx, name)
	if err != nil {
		return err
	}
	pods := layout.Params{EtcdMode: c.doc.Spec.Etcd.Mode}.StaticPods()
	args := []string{"settled"}
	for _, program := range slices.Sorted(maps.Keys(pods)) {
		args = append(args, program+"="+pods[program])
	}
	_, err = c.dialer.Agent(ctx, h, nil, args...)
	return err
}

// afterOthers has a step that restarts what serves wait until the other control-plane machines have taken up what they were told: by this
// apply, or by one before that was cut short; and until etcd can do without its member. What was sick before is not waited for beyond that.
func (c *Cluster) afterOthers(s *plan.Step, o *Observed) {
	var others []string
	for _, m := range o.Want {
		if m.IsControlPlane() && m.Name != s.Subject && !c.joins(o, m) && o.serves(m.Name) && o.Machines[m.Name].UpToDate() {
			others = append(others, m.Name)
		}
	}
	well := !slices.ContainsFunc(o.Health, func(h etcd.Health) bool { return !h.OK() })
	run := s.Run
	s.Run = func(ctx context.Context, p plan.Progress) error {
		if len(others) > 0 {
			p.Status("waiting until the other control-plane machines serve")
		}
		for _, name := range others {
			if err := c.settled(ctx, name); err != nil {
				return err
			}
		}
		if well {
			if err := c.waitEtcd(ctx); err != nil {
				return err
			}
		}
		if err := c.mayStop(ctx, s.Subject); err != nil {
			return err
		}
		return run(ctx, p)
	}
}

// mayStop is fail.NotReady while etcd would lose its quorum without a machine's member. Where that is the only one, it is as it is.
func (c *Cluster) mayStop(ctx context.Context, name string) error {
	return c.withEtcd(ctx, func(e *etcd.Client) error {
		members, err := e.Members(ctx)
		if err != nil {
			return err
		}
		return stoppable(members, e.Health(ctx, members), name)
	})
}

func stoppable(members []etcd.Member, health []etcd.Health, name string) error {
	i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.Name == name })
	if i < 0 || etcd.Now(members, health).Voters == 1 {
		return nil
	}
	if _, err := etcd.Project(members, health, etcd.Change{Action: etcd.Stop, ID: members[i].ID}); err != nil {
		return fail.Wrap(fail.NotReady, err, "restart %s", name).At(name).
			Do("bring the other control-plane machines back, or replace them: naupegos status shows which don't answer; apply goes on then")
	}
	return nil
}

// gatewayGate lets what follows begin only when this gateway passes on the API, and the API answers through the endpoint.
func (c *Cluster) gatewayGate(name string) *plan.Step {
	return &plan.Step{
		ID: healthID(name), Action: plan.Wait, Subject: name, Title: "wait until " + name + " reaches the API", Reason: "one gateway at a time",
		Run: func(ctx context.Context, p plan.Progress) error {
			p.Status("waiting until HAProxy on %s reaches an API server", name)
			if err := c.checkGateway(ctx, name); err != nil {
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

// checkGateway asks a gateway whether its HAProxy reaches an API server.
func (c *Cluster) checkGateway(ctx context.Context, name string) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.dialer.Agent(ctx, h, nil, "gateway-check", "--url", gateway.Params{}.HealthURL())
	}
	return err
}
