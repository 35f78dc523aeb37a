package cloud

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
)

// Tag adds the missing tags to a Neutron resource, and returns its tags. It removes no tags of others.
func (c *Cloud) Tag(ctx context.Context, kind, id string, have, want []string) ([]string, error) {
	all := slices.Clone(have)
	for _, t := range want {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	if len(all) == len(have) {
		return have, nil
	}
	got, err := attributestags.ReplaceAll(ctx, c.Network, kind, id, attributestags.ReplaceAllOpts{Tags: all}).Extract()
	return got, Wrap(err, "tag %s %s", kind, id)
}
