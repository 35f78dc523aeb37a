package cloud

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/pagination"
)

// Pages reads a list to its end.
func Pages[T any](ctx context.Context, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	var all []T
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		items, err := extract(page)
		all = append(all, items...)
		return err == nil, err
	})
	return all, err
}
