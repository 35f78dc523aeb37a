//go:build openstack

package openstack

import (
	"context"
	"crypto/rand"
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	glance "github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/images"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestPreflightWarns: the image in the real Glance contains another bundle, and no outside address has access.
func TestPreflightWarns(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	image := oddImage(ctx, t)
	doc := testDocument(t, "t3-warn", `  provider:
    openstack:
      externalNetwork: public
      network: {cidr: 10.77.0.0/24}
      machine: {flavor: m1.medium, image: `+image+`}
  endpoint: {kind: octavia}
  controlPlane: {replicas: 1, schedulable: true}
`)
	p, _ := testProvider(t, doc, "t3-warn-0badcafe", func(o *Options) { o.BundleID = "another" })
	if _, err := p.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Preflight(ctx, wanted(doc)); err != nil {
		t.Fatal(err)
	}
	all := p.Warnings()
	t.Logf("%q", all)
	for _, want := range []string{"no machine gets a floating IP", "image " + image + " of control-plane has Kubernetes v1.0.0 inside"} {
		if len(all) != 2 || !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("%q is not said by %q", want, all)
		}
	}
}

// oddImage uploads an image that claims to contain another bundle; it is deleted with the test.
func oddImage(ctx context.Context, t *testing.T) string {
	t.Helper()
	want := images.Image{Name: "t3-odd-" + rand.Text(), Format: "raw", Size: 1, File: filepath.Join(t.TempDir(), "image"),
		Properties: map[string]string{PropertyBundle: "0badcafe", PropertyKubernetes: "v1.0.0"}}
	testkit.Must(t, os.WriteFile(want.File, []byte("x"), 0o600))
	sum := sha512.Sum512([]byte("x"))
	want.SHA512 = hex.EncodeToString(sum[:])
	s, err := images.Open(ctx, images.Options{})
	testkit.Must(t, err)
	made, err := s.Upload(ctx, want, silent{})
	testkit.Must(t, err)
	t.Cleanup(func() {
		l, err := cloud.ReadLogin(bed.Cloud, "")
		testkit.Must(t, err)
		c, err := cloud.Connect(context.Background(), l, cloud.Calls{})
		testkit.Must(t, err)
		testkit.Must(t, glance.Delete(context.Background(), c.Image, made.ID).ExtractErr())
	})
	return want.Name
}
