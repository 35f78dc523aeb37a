package addons

import (
	"context"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

// SmokeTimeout limits the smoke test, including retries.
const SmokeTimeout = 3 * time.Minute

// CloudSmokeTimeout limits the smoke test of the cloud, whose load balancers may take minutes.
const CloudSmokeTimeout = 15 * time.Minute

// SmokeStep is the ID of the smoke test.
const SmokeStep = "smoke"

// Smoke runs a pod behind a Service, and sends requests to the Service by address and by name.
func (c *Addons) Smoke(ctx context.Context, p plan.Progress) error {
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	img, err := c.Current.Image("echo")
	if err != nil {
		return err
	}
	if _, err = client.Smoke(ctx, kube.SmokeOptions{Image: img.Ref, DNSDomain: c.Doc.Spec.Kubernetes.DNSDomain, Status: p.Status}); err != nil {
		return err
	}
	return c.Facts.Set(ctx, memory.Smoked, "true")
}

// CloudSmoke obtains a load balancer and a volume from the cloud, and returns a description of them.
func (c *Addons) CloudSmoke(ctx context.Context, p plan.Progress) (string, error) {
	client, err := c.Kube(ctx)
	if err != nil {
		return "", err
	}
	if err := c.waitAddons(ctx, client, p); err != nil {
		return "", err
	}
	img, err := c.Current.Image("echo")
	if err != nil {
		return "", err
	}
	o := kube.CloudSmokeOptions{Image: img.Ref, Status: p.Status, Ask: c.askBalancer}
	o.NoLoadBalancer, o.NoVolume = c.Cloud().NoBalancing() != "", c.Cloud().NoVolumes() != ""
	r, err := client.CloudSmoke(ctx, o)
	if err != nil {
		return "", err
	}
	var gave []string
	if !o.NoLoadBalancer {
		gave = append(gave, "load balancer at "+r.Address+", asked from "+r.Asked)
	}
	if !o.NoVolume {
		gave = append(gave, "volume")
	}
	return strings.Join(gave, "; "), c.Facts.Set(ctx, memory.CloudSmoked, "true")
}
