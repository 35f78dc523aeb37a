package cache

import "context"

// Any is a cache of any kind of resource.
type Any interface {
	Fresh(ctx context.Context) error
	Load(ctx context.Context) error
	Invalidate()
}

// Fresh refreshes several caches, each with its method Fresh, and stops at the first error.
func Fresh(ctx context.Context, caches ...Any) error {
	for _, s := range caches {
		if err := s.Fresh(ctx); err != nil {
			return err
		}
	}
	return nil
}
