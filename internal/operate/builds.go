package operate

import (
	"context"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
)

// HasBundle reports whether FindBundle with the same arguments would make nothing.
type HasBundle func(ctx context.Context, doc *v1alpha1.Cluster, version, was string) (bool, error)

// OneAtATime returns a FindBundle that makes a bundle only if may does not refuse it, and only while no other holder of turn makes one: each takes all
// processors.
func (f FindBundle) OneAtATime(has HasBundle, may func(doc *v1alpha1.Cluster, version string) error, turn chan struct{}) FindBundle {
	return func(ctx context.Context, doc *v1alpha1.Cluster, version, was string) (use, newest *bundle.Bundle, err error) {
		here, err := has(ctx, doc, version, was)
		if err != nil {
			return nil, nil, err
		}
		if !here {
			if err := may(doc, version); err != nil {
				return nil, nil, err
			}
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}
		return f(ctx, doc, version, was)
	}
}
