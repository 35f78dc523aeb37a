package report

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
)

// Member holds the numbers of a machine's etcd member.
type Member struct {
	Leader  bool   `json:"leader"`
	Learner bool   `json:"learner"`
	Healthy bool   `json:"healthy"`
	Version string `json:"version,omitempty"`
	DB      int64  `json:"dbBytes"`
	InUse   int64  `json:"dbInUseBytes"` // of DB; a defragmentation frees the rest
	Lag     uint64 `json:"lag"`          // entries behind the furthest member
}

// memberNumbers returns the numbers of a machine's etcd member, or nil if there is no member or etcd does not answer.
func memberNumbers(o *observe.Observed, name string) *Member {
	m, ok := o.Member(name)
	if !ok {
		return nil
	}
	out := &Member{Learner: m.Learner}
	for _, h := range o.Health {
		if h.ID == m.ID {
			out.Leader, out.Healthy, out.Version, out.DB, out.InUse, out.Lag = h.Leader, h.OK(), h.Version, h.DBSize, h.DBInUse, h.Lag
		}
	}
	return out
}

// Insight is what the Kubernetes API reports about a cluster.
type Insight struct {
	Nodes  []kube.NodeLoad `json:"nodes,omitempty"`
	Events []kube.Event    `json:"events,omitempty"` // oldest first
}

// Insight asks the Kubernetes API for nodes and their load, and for the newest events since a time, at most a given number.
func (c *Reporter) Insight(ctx context.Context, since time.Time, most int) (*Insight, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	loads, pods, err := kube.Loads(ctx, client)
	if err != nil {
		return nil, err
	}
	events, err := kube.Events(ctx, client, since, most, pods)
	return &Insight{Nodes: loads, Events: events}, err
}

// usageTime limits a request to one kubelet.
const usageTime = 5 * time.Second

// askedAtOnce limits how many kubelets are asked at once.
const askedAtOnce = 8

// Usage asks the nodes' kubelets for their resource usage. A node that does not answer is left out.
func (c *Reporter) Usage(ctx context.Context) ([]kube.Usage, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	client, err := c.Kube(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]kube.Usage, len(nodes))
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for i, n := range nodes {
		if !n.Ready {
			continue
		}
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, usageTime)
			defer cancel()
			if u, err := kube.UsageOf(ctx, client, n.Name); err == nil {
				all[i] = u
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []kube.Usage
	for _, u := range all {
		if u.Node != "" {
			out = append(out, u)
		}
	}
	return out, ctx.Err()
}

// Units asks a machine since when its units run, and which units are down.
func (c *Reporter) Units(ctx context.Context, name string) (machine.Life, error) {
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	return c.Life(ctx, name)
}
