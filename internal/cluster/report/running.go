package report

import (
	"context"

	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/running"
)

// Workloads lists one page of the cluster's workloads.
func (c *Reporter) Workloads(ctx context.Context, ask running.Ask) (*running.List, error) {
	return see(ctx, c, func(ctx context.Context, client *kube.Client) (*running.List, error) {
		return running.Of(ctx, client, ask)
	})
}

// PodLog reads the end of a container's log.
func (c *Reporter) PodLog(ctx context.Context, of running.LogOf) (*running.Log, error) {
	return see(ctx, c, func(ctx context.Context, client *kube.Client) (*running.Log, error) {
		return running.LogFrom(ctx, client, of)
	})
}
