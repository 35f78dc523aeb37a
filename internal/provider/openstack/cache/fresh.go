package cache

import "context"

// Any is a cache of whatever kind.
type Any interface {
	Fresh(ctx context.Context) error
	Load(ctx context.Context) error
	Invalidate()
}

// Fresh makes sure that what is known of some kinds is certain.
func Fresh(ctx context.Context, caches ...Any) error {
	for _, s := range caches {
		if err := s.Fresh(ctx); err != nil {
			return err
		}
	}
	return nil
}
