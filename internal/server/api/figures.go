package api

import (
	"context"
	"net/http"

	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server"
)

// figures registers the view of a cluster's figures, whose parameters are in the query, so that an address names them.
func (a *api) figures() {
	add(a, operation{id: "cluster-figures", method: http.MethodGet, path: "/api/v1/clusters/{name}/" + operate.Figures.Name, role: server.Read, scope: server.Cluster("name"), within: operate.Figures.Within,
		summary: "Get a cluster's figures over time, from its own Prometheus",
		text:    "CPU, memory, disk and network of machines; requests to the API and to etcd; pods. The field missing says what a cluster without Prometheus lacks."}, a.readFigures)
}

func (a *api) readFigures(ctx context.Context, in *struct {
	Named
	Range   string `query:"range" enum:"1h,6h,24h,7d" default:"1h" doc:"The time range"`
	Machine string `query:"machine" maxLength:"63" doc:"Only the figures of this machine"`
}) (*viewOf[figures.Figures], error) {
	out, err := lookAt(ctx, a, in.Name, func(s *operate.Session) (*figures.Figures, error) {
		return operate.Figures.See(ctx, s, figures.Ask{Range: in.Range, Machine: in.Machine})
	})
	return &viewOf[figures.Figures]{"no-store", out}, err
}
