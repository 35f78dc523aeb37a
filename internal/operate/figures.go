package operate

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/kube/figures"
)

// Figures is the view of the load and the health of a cluster over time, as its own Prometheus measured them.
var Figures = View[figures.Ask, figures.Figures]{Name: "figures", Within: 30 * time.Second, See: func(ctx context.Context, s *Session, in figures.Ask) (*figures.Figures, error) {
	return s.Cluster.Figures(ctx, in)
}}
