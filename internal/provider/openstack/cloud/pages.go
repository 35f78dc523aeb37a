package cloud

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// Pages reads all pages of a list.
func Pages[T any](ctx context.Context, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	var all []T
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		items, err := extract(page)
		all = append(all, items...)
		return err == nil, err
	})
	return all, err
}

// Get reads one document of a service.
func Get(ctx context.Context, c *gophercloud.ServiceClient, into any, path ...string) error {
	return GetURL(ctx, c, into, c.ServiceURL(path...))
}

// GetURL reads a document at an address of a service.
func GetURL(ctx context.Context, c *gophercloud.ServiceClient, into any, url string) error {
	resp, err := c.Get(ctx, url, into, nil) //nolint:bodyclose // gophercloud closes it
	_, _, err = gophercloud.ParseResponse(resp, err)
	return err
}
