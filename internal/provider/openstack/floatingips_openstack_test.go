//go:build openstack

package openstack

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAddressesAreGivenUpInACloud has a real Neutron take back a machine's floating IP, and then the load balancer's, only with consent.
func TestAddressesAreGivenUpInACloud(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	const name, id = "t3-giveup", "t3-giveup-0badc0de"
	spec := strings.NewReplacer("10.77.", "10.91.", "kind: direct", "kind: octavia").Replace(smallSpec)
	doc := testDocument(t, name, spec)
	clean(t, doc, id)
	held := func() int {
		p, _ := testProvider(t, doc, id)
		c, err := p.cloud(ctx)
		testkit.Must(t, err)
		all, err := cloud.Pages(ctx, floatingips.List(c.Network, floatingips.ListOpts{}), floatingips.ExtractFloatingIPs)
		testkit.Must(t, err)
		return len(keepIf(all, func(f floatingips.FloatingIP) bool { return strings.Contains(f.Description, id) }))
	}
	run := func(consents ...string) error {
		p, _ := testProvider(t, doc, id, patient)
		return applyWith(ctx, p, consents...)
	}
	testkit.Must(t, run())
	if n := held(); n != 2 {
		t.Fatalf("the cluster holds %d floating IPs, not one of its machine and one of its load balancer", n)
	}
	for _, change := range [][2]string{{"floatingIP: true", "floatingIP: false"}, {"{kind: octavia}", "{kind: octavia, octavia: {internal: true}}"}} {
		spec = strings.Replace(spec, change[0], change[1], 1)
		doc = testDocument(t, name, spec)
		givesUpWithConsent(t, run, held)
		nothingToDo(ctx, t, doc, id)
	}
	p, _ := testProvider(t, doc, id, patient)
	testkit.Must(t, destroy(ctx, p))
	isEmpty(ctx, t, doc, id)
}
