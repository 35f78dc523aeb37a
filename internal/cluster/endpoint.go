package cluster

import (
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// planBalance points the cloud's load balancer, if the API is behind one, at the present machines once the API answers. It does not wait for
// restarting machines: they wait for the load balancer, so that others serve in the meantime.
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
		a.add(stage.Balance, s, plan.IfPlanned(nodes.APIStep)...)
		ids = append(ids, s.ID)
	}
	return ids, nil
}
