package operate

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster"
)

// The views of who may use a cluster's API.
var (
	Users = View[Plainly, cluster.Users]{Name: "users", See: func(ctx context.Context, s *Session, _ Plainly) (*cluster.Users, error) {
		return cluster.UsersOf(ctx, s.Cluster)
	}}
	Entrance = View[Plainly, cluster.Entrance]{Name: "entrance", See: func(ctx context.Context, s *Session, _ Plainly) (*cluster.Entrance, error) {
		return cluster.EntranceOf(ctx, s.Cluster)
	}}
)
