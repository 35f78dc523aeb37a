package addons

import (
	"context"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

// SmokeTime bounds the smoke test with its retries: 3 minutes, or timeouts.nodeReady if that is longer.
func SmokeTime(doc *v1alpha1.Cluster) time.Duration { return atLeast(doc, 3*time.Minute) }

// CloudSmokeTime bounds the smoke test of the cloud, whose load balancers may take minutes: 15 minutes, or timeouts.nodeReady if that is longer.
func CloudSmokeTime(doc *v1alpha1.Cluster) time.Duration { return atLeast(doc, 15*time.Minute) }

// SiteTime bounds the proof that an addon of the document works: 5 minutes, or timeouts.nodeReady if that is longer.
func SiteTime(doc *v1alpha1.Cluster) time.Duration { return atLeast(doc, 5*time.Minute) }

// atLeast returns a limit, or timeouts.nodeReady if that is longer: hosts whose nodes take long start pods slowly, too.
func atLeast(doc *v1alpha1.Cluster, limit time.Duration) time.Duration {
	return max(limit, doc.Spec.Timeouts.NodeReady.Duration)
}

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
	o := kube.SmokeOptions{Image: img.Ref, DNSDomain: c.Doc.Spec.Kubernetes.DNSDomain, Timeout: SmokeTime(c.Doc) - time.Minute, Status: p.Status} // leaves time for another attempt
	if _, err = client.Smoke(ctx, o); err != nil {
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
	o := kube.CloudSmokeOptions{Image: img.Ref, Timeout: SiteTime(c.Doc), Status: p.Status, Ask: c.askBalancer}
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
