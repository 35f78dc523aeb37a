package openstack

import (
	"context"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// made keeps what a call made or changed. After an error what is known is in doubt: the next attempt of the step lists again,
// and adopts what was made after all.
func made[T any](s *cache[T], item *T, err error, format string, args ...any) (T, error) {
	if err != nil {
		s.invalidate()
		var none T
		return none, cloud.Wrap(err, format, args...)
	}
	s.keep(*item)
	return *item, nil
}

// late looks again where the cloud refuses to make something: a run that was killed may have asked for the same, and it came about only after
// this one had looked. ok reports whether it is there now. Where err is no such refusal, nothing is asked.
func late[T any](ctx context.Context, s *cache[T], err error, fits func(T) bool) (item T, ok bool, failed error) {
	if st := cloud.Status(err); st != http.StatusConflict && st != http.StatusBadRequest {
		return item, false, nil
	}
	s.invalidate()
	if err := s.fresh(ctx); err != nil {
		return item, false, err
	}
	item, ok = s.find(fits)
	return item, ok, nil
}

// removed forgets what a call deleted. What is gone already is as good.
func removed[T any](s *cache[T], id string, err error, format string, args ...any) error {
	if err != nil && !cloud.Gone(err) {
		s.invalidate()
		return cloud.Wrap(err, format, args...)
	}
	s.drop(id)
	return nil
}

// best returns the item with the highest rank, the first of equals, and the others: what was made twice because the cloud
// answered one request too late.
func best[T any](items []T, rank func(T) int) (T, []T) {
	top := 0
	for i := range items {
		if rank(items[i]) > rank(items[top]) {
			top = i
		}
	}
	return items[top], slices.Delete(slices.Clone(items), top, top+1)
}

// anything fits everything.
func anything[T any](T) bool { return true }

// tag gives a resource of Neutron the tags that it lacks, and returns all that it then has. Nobody else's tags are taken away.
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

// refresher is a cache of whatever kind.
type refresher interface {
	fresh(ctx context.Context) error
	load(ctx context.Context) error
	invalidate()
}

// fresh makes sure that what is known of some kinds is certain.
func fresh(ctx context.Context, caches ...refresher) error {
	for _, s := range caches {
		if err := s.fresh(ctx); err != nil {
			return err
		}
	}
	return nil
}

// still turns the refusal to delete something that is in use into a reason to wait.
func still(err error, by func() string) error {
	if s := cloud.Status(err); s == 409 || s == 400 {
		if who := by(); who != "" {
			return fail.Wrap(fail.NotReady, err, "%s", who)
		}
		return fail.Wrap(fail.NotReady, err, "it is still in use")
	}
	return err
}
