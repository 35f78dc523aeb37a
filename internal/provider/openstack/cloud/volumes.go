package cloud

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
)

// VolumesWith lists the volumes with the given metadata; none if the cloud has no volume service.
func (c *Cloud) VolumesWith(ctx context.Context, key, value string) ([]volumes.Volume, error) {
	if c.Volume == nil {
		return nil, nil
	}
	all, err := Pages(ctx, volumes.List(c.Volume, volumes.ListOpts{Metadata: map[string]string{key: value}}), volumes.ExtractVolumes)
	return slices.DeleteFunc(all, func(v volumes.Volume) bool { return v.Metadata[key] != value }), err
}
