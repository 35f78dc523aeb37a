package openstack

import (
	"context"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// made caches the result of a create or update call. After an error the cache is invalid: the next attempt of the step lists again, and adopts
// the resource if it was created after all.
func made[T any](s *cache.Cache[T], item *T, err error, format string, args ...any) (T, error) {
	if err != nil {
		s.Invalidate()
		var none T
		return none, cloud.Wrap(err, format, args...)
	}
	s.Keep(*item)
	return *item, nil
}

// late looks again after the cloud refused to create a resource, because a killed run may have requested the same one and it appeared only
// now. ok reports whether the resource exists now. For any other err, late makes no call.
func late[T any](ctx context.Context, s *cache.Cache[T], err error, fits func(T) bool) (item T, ok bool, failed error) {
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

// removed drops a deleted resource from the cache. A missing resource is no error.
func removed[T any](s *cache.Cache[T], id string, err error, format string, args ...any) error {
	if err != nil && !cloud.Gone(err) {
		s.Invalidate()
		return cloud.Wrap(err, format, args...)
	}
	s.Drop(id)
	return nil
}

// best returns the first item with the highest rank, and the others: duplicates, created because the cloud answered one request too late.
func best[T any](items []T, rank func(T) int) (T, []T) {
	top := 0
	for i := range items {
		if rank(items[i]) > rank(items[top]) {
			top = i
		}
	}
	return items[top], slices.Delete(slices.Clone(items), top, top+1)
}

// anything matches every item.
func anything[T any](T) bool { return true }

// tag adds the missing tags to a Neutron resource, and returns its tags. It removes no tags of others.
func (p *Provider) tag(ctx context.Context, kind, id string, have, want []string) ([]string, error) {
	all := slices.Clone(have)
	for _, t := range want {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	if len(all) == len(have) {
		return have, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return have, err
	}
	got, err := attributestags.ReplaceAll(ctx, c.Network, kind, id, attributestags.ReplaceAllOpts{Tags: all}).Extract()
	return got, cloud.Wrap(err, "tag %s %s", kind, id)
}

// network returns the client of the network service.
func (p *Provider) network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	return c.Network, nil
}

// still turns the refusal to delete a resource in use into a reason to wait.
func still(err error, by func() string) error {
	if s := cloud.Status(err); s == 409 || s == 400 {
		if who := by(); who != "" {
			return fail.Wrap(fail.NotReady, err, "%s", who)
		}
		return fail.Wrap(fail.NotReady, err, "it is still in use")
	}
	return err
}
