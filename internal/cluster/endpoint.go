package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// planBalance has the provider's own load balancer, where the API is behind one, follow the machines once the API answers. It does not wait
// for those that restart: they wait for it, so that others serve meanwhile.
func (a *applying) planBalance() (ids []string, err error) {
	balancer, ok := a.Prov.(provider.Balancer)
	if !ok {
		return nil, nil
	}
	want, err := a.WantedMachines(wanted.Own(a.o.Want))
	if err != nil {
		return nil, err
	}
	for _, s := range balancer.Balance(want, a.o.Inventory) {
		a.add(stageBalance, s, plan.IfPlanned(apiStep)...)
		ids = append(ids, s.ID)
	}
	return ids, nil
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
		_, err = c.Dialer.Agent(ctx, h, nil, "gateway-check", "--url", gateway.Params{}.HealthURL())
	}
	return err
}
