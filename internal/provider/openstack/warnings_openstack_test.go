//go:build openstack

package openstack

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPreflightWarns has an image with another bundle inside in the real Glance, and nobody outside who gets in.
func TestPreflightWarns(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	image := randomImage(t)
	image.Properties[PropertyBundle], image.Properties[PropertyKubernetes] = "0badcafe", "v1.0.0"
	upload(ctx, t, imageService(ctx, t, image.Name, http.DefaultTransport), image)
	doc := testDocument(t, "t3-warn", `  provider:
    openstack:
      externalNetwork: public
      network: {cidr: 10.77.0.0/24}
      machine: {flavor: m1.medium, image: `+image.Name+`}
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
	for _, want := range []string{"no machine gets a floating IP", "image " + image.Name + " of control-plane has Kubernetes v1.0.0 inside"} {
		if len(all) != 2 || !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("%q is not said by %q", want, all)
		}
	}
}
