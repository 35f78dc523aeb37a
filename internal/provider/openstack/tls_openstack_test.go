//go:build openstack

package openstack

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestBehindTLS: in a cloud with a private authority and without load balancing, a document that needs a load balancer is refused together with all
// other problems before any change; without the authority, the error has the remedy.
func TestBehindTLS(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	doc := testDocument(t, "t4-tls", `  provider:
    openstack:
      cloud: `+bed.TLSCloud+`
      externalNetwork: outback
      network: {cidr: 10.77.0.0/24}
      machine: {flavor: m1.small, image: debian-12}
  endpoint: {kind: octavia}
  controlPlane: {replicas: 1, schedulable: true}
`)
	const id = "t4-tls-0badcafe"
	direct := func(o *Options) { o.Calls.HTTPClient = nil } // the counter of calls knows nothing of authorities
	p, _ := testProvider(t, doc, id, direct)
	inv, err := p.Observe(ctx)
	testkit.Must(t, err)
	err = p.Preflight(ctx, wanted(doc))
	testkit.Fails(t, err, fail.Refused, "find the load-balancer service in region RegionTLS", "such as gateways", "called outback")
	if n := strings.Count(err.Error(), "load-balancer service"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	t.Logf("%v", err)
	testkit.Must(t, execute(ctx, "destroy", p.Destroy(t.Context(), inv)))
	if ca, err := p.CACert(); err != nil || !strings.HasPrefix(ca, "-----BEGIN CERTIFICATE-----") {
		t.Errorf("the authority is %q, %v", ca, err)
	}

	p, _ = testProvider(t, doc, id) // whose client knows only the system's authorities
	began := time.Now()
	_, err = p.Observe(ctx)
	testkit.Fails(t, err, fail.Refused, "unknown authority", "cacert in clouds.yaml")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it was tried again and again: %v", took)
	}
}
