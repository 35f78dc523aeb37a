package cache

import (
	"context"
	"net/http"
	"slices"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Made caches the result of a create or update call. After an error the cache is invalid: the next attempt of the step lists again, and adopts
// the resource if it was created after all.
func Made[T any](s *Cache[T], item *T, err error, format string, args ...any) (T, error) {
	if err != nil {
		s.Invalidate()
		var none T
		return none, cloud.Wrap(err, format, args...)
	}
	s.Keep(*item)
	return *item, nil
}

// Late looks again after the cloud refused to create a resource, because a killed run may have requested the same one and it appeared only
// now. ok reports whether the resource exists now. For any other err, Late makes no call.
func Late[T any](ctx context.Context, s *Cache[T], err error, fits func(T) bool) (item T, ok bool, failed error) {
	if st := cloud.Status(err); st != http.StatusConflict && st != http.StatusBadRequest {
		return item, false, nil
	}
	s.Invalidate()
	if err := s.Fresh(ctx); err != nil {
		return item, false, err
	}
	item, ok = s.Find(fits)
	return item, ok, nil
}

// Removed drops a deleted resource from the cache. A missing resource is no error.
func Removed[T any](s *Cache[T], id string, err error, format string, args ...any) error {
	if err != nil && !cloud.Gone(err) {
		s.Invalidate()
		return cloud.Wrap(err, format, args...)
	}
	s.Drop(id)
	return nil
}

// Best returns the first item with the highest rank, and the others: duplicates, created because the cloud answered one request too late.
func Best[T any](items []T, rank func(T) int) (T, []T) {
	top := 0
	for i := range items {
		if rank(items[i]) > rank(items[top]) {
			top = i
		}
	}
	return items[top], slices.Delete(slices.Clone(items), top, top+1)
}

// Anything matches every item.
func Anything[T any](T) bool { return true }
