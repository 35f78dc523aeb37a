package runner

import (
	"context"
	"io"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/fail"
)

// Image properties that `naupegos image upload` sets: they mark its images and name their content.
const (
	bundleProperty = "naupegos_bundle"
	digestProperty = "naupegos_sha512" // of the image's file
)

// content describes an image of a server as the image's properties do.
type content struct {
	Image  string // Glance's ID
	Bundle string // the bundle's ID; empty: a plain image
	SHA512 string // of the image's data, which `naupegos image build` made; empty: there are no such data
}

// contentOf reads the properties from the server's image or, for a root volume, from the image metadata that Cinder stored with it.
func (c *cloud) contentOf(ctx context.Context, s server) (content, error) {
	if s.Image != "" {
		i, err := images.Get(ctx, c.image, s.Image).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return content{}, nil // the image was removed after the server was created
		}
		if err != nil {
			return content{}, fail.Wrap(fail.Unreachable, err, "read image %s", s.Image).At(s.Name)
		}
		word := func(name string) string { v, _ := i.Properties[name].(string); return v }
		return content{Image: i.ID, Bundle: word(bundleProperty), SHA512: word(digestProperty)}, nil
	}
	for _, v := range s.Volumes {
		vol, err := volumes.Get(ctx, c.volume, v).Extract()
		if err != nil {
			return content{}, fail.Wrap(fail.Unreachable, err, "read volume %s", v).At(s.Name)
		}
		if m := vol.VolumeImageMetadata; vol.Bootable == "true" && m[bundleProperty] != "" {
			return content{Image: m["image_id"], Bundle: m[bundleProperty], SHA512: m[digestProperty]}, nil
		}
	}
	return content{}, nil
}

// data opens an image's data and returns its format. ctx bounds the whole read.
func (c *cloud) data(ctx context.Context, id string) (io.ReadCloser, string, error) {
	i, err := images.Get(ctx, c.image, id).Extract() // this call also renews an expired token
	if err != nil {
		return nil, "", fail.Wrap(fail.Unreachable, err, "read image %s", id)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.image.ServiceURL("images", id, "file"), nil)
	if err != nil {
		return nil, "", err
	}
	for k, v := range c.image.AuthenticatedHeaders() {
		req.Header.Set(k, v)
	}
	client := http.Client{Transport: c.image.HTTPClient.Transport} // the other client's timeout is for small answers
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", fail.Wrap(fail.Unreachable, err, "read the data of image %s", i.Name)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, "", fail.New(fail.Unreachable, "Glance answers %s for the data of image %s", resp.Status, i.Name)
	}
	return resp.Body, i.DiskFormat, nil
}
