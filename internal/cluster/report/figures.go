package report

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/figures"
)

// prometheus is where the addon of the document puts Prometheus.
var prometheus = figures.Place{Namespace: addon.PrometheusNamespace, App: addon.PrometheusApp, Port: addon.PrometheusPort}

// Figures asks the cluster's own Prometheus for the cluster's figures.
func (c *Reporter) Figures(ctx context.Context, ask figures.Ask) (*figures.Figures, error) {
	if _, err := ask.Check(); err != nil {
		return nil, err
	}
	return see(ctx, c, func(ctx context.Context, client *kube.Client) (*figures.Figures, error) {
		return figures.Of(ctx, client, prometheus, ask, time.Now())
	})
}

// see asks the Kubernetes API of a cluster that has one, in bounded time.
func see[T any](ctx context.Context, c *Reporter, ask func(context.Context, *kube.Client) (T, error)) (none T, err error) {
	if !c.Facts.Bootstrapped() {
		return none, env.ErrNotBootstrapped(c.Name())
	}
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	client, err := c.Kube(ctx)
	if err != nil {
		return none, err
	}
	return ask(ctx, client)
}
