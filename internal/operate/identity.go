package operate

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster"
)

// The views of who may use a cluster's API.
var (
	Users = View[Plainly, cluster.Users]{Name: "users", See: func(ctx context.Context, s *Session, _ Plainly) (*cluster.Users, error) {
		return s.Cluster.Users(ctx)
	}}
	Entrance = View[Plainly, cluster.Entrance]{Name: "entrance", See: func(ctx context.Context, s *Session, _ Plainly) (*cluster.Entrance, error) {
		return s.Cluster.Entrance(ctx)
	}}
)
