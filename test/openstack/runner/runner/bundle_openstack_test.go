//go:build openstack

package runner

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// preparedImage creates an image in Glance whose properties name a bundle of this host's library, as `naupegos image upload` does.
func (x *tenant) preparedImage() (image string, b *bundle.Bundle) {
	x.t.Helper()
	ctx, t := x.t.Context(), x.t
	b = bundletest.Any(t)
	i, err := images.Create(ctx, x.cloud.image, images.CreateOpts{
		Name: x.name, DiskFormat: "raw", ContainerFormat: "bare", Properties: map[string]string{bundleProperty: b.ID},
	}).Extract()
	testkit.Must(t, err)
	x.later(func(ctx context.Context) error { return images.Delete(ctx, x.cloud.image, i.ID).ExtractErr() })
	testkit.Must(t, imagedata.Upload(ctx, x.cloud.image, i.ID, bytes.NewReader(make([]byte, 1<<20))).ExtractErr())
	return i.ID, b
}

// TestBundleIsInTheImage boots from a volume of an image with a bundle: only the volume's metadata names the bundle.
func TestBundleIsInTheImage(t *testing.T) {
	testkit.OnlyFull(t, "make test-own-image covers images with the bundle inside")
	x := newTenant(t, "10.94.11.0/24")
	image, b := x.preparedImage()
	start(t, testOptions(t, x.network))
	ctx := t.Context()
	s, err := servers.Create(ctx, x.cloud.compute, servers.CreateOpts{
		Name: x.name + "-one", FlavorRef: x.flavor("m1.small"), UserData: []byte(x.userData(x.name)), Networks: []servers.Network{{UUID: x.network}},
		BlockDevice: []servers.BlockDevice{{
			SourceType: servers.SourceImage, DestinationType: servers.DestinationVolume, UUID: image, VolumeSize: 1, DeleteOnTermination: true,
		}},
	}, nil).Extract()
	testkit.Must(t, err)
	x.later(func(ctx context.Context) error { return x.deleteServer(ctx, s.ID) })
	x.await("the server to be ACTIVE", 5*time.Minute, func() error {
		s, err := servers.Get(ctx, x.cloud.compute, s.ID).Extract()
		if err == nil && s.Status != "ACTIVE" {
			err = errors.New(s.Status + ": " + s.Fault.Message)
		}
		return err
	})
	containerd, err := b.Binary("containerd")
	testkit.Must(t, err)
	x.await("the bundle's programs and images in the machine", bootTime, func() error {
		c, err := x.direct(s.ID)
		if err != nil {
			return err
		}
		defer c.Close()
		_, digest, _ := strings.Cut(containerd.Digest, ":")
		out, err := sshtest.Run(c, machine.BlobDir+"/"+digest+" --version && ls "+machine.ContainerdRoot+"/io.containerd.content.v1.content/blobs/sha256 | head -1")
		if err == nil && len(strings.Fields(out)) < 4 {
			err = errors.New(out)
		}
		return err
	})
}
