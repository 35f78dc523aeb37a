package nodes

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

const drainPrefix = "drain/" // of the IDs of steps that drain a node

// WarnOfBudgets adds to a plan's warnings the pods that its drains can never evict. known are obstacles that the plan reports already.
func (c *Nodes) WarnOfBudgets(ctx context.Context, p *plan.Plan, known []string) {
	var nodes []string
	for _, s := range p.Steps {
		if node, drains := strings.CutPrefix(s.ID, drainPrefix); drains {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	var found []kube.Unevictable
	client, err := c.Kube(ctx)
	if err == nil {
		found, err = kube.UnevictableOn(ctx, client, nodes)
	}
	if err != nil {
		p.Warnings = append(p.Warnings, "it is unknown whether disruption budgets allow the drains: "+err.Error())
		return
	}
	for _, u := range found {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.Contains(k, u.Pod+" ") }) {
			p.Warnings = append(p.Warnings, u.Why)
		}
	}
}
