package openstack

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAddressesAreGivenUpWithConsent: a floating IP that is given back is lost for good.
func TestAddressesAreGivenUpWithConsent(t *testing.T) {
	useFake(t)
	for name, c := range map[string]struct{ before, after string }{
		"of a machine":           {"floatingIP: true", "floatingIP: false"},
		"of the load balancer's": {"endpoint: {kind: octavia}", "endpoint: {kind: octavia, octavia: {internal: true}}"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud()
			spec := strings.NewReplacer("v1.small", "m1.small", "endpoint: {kind: direct}", "endpoint: {kind: octavia}").Replace(smallSpec)
			if err := apply(t.Context(), fakeProvider(t, f, testDocument(t, "t3-life", spec))); err != nil {
				t.Fatal(err)
			}
			doc := testDocument(t, "t3-life", strings.Replace(spec, c.before, c.after, 1))
			givesUpWithConsent(t, func(consents ...string) error { return applyWith(t.Context(), fakeProvider(t, f, doc), consents...) },
				func() int { return len(f.kinds["floatingips"]) })
		})
	}
}

// givesUpWithConsent applies a document that wants one floating IP less than the cluster holds.
func givesUpWithConsent(t *testing.T, apply func(consents ...string) error, held func() int) {
	t.Helper()
	had := held()
	testkit.Fails(t, apply(), fail.Refused, "--consent "+provider.ConsentAddresses)
	if n := held(); n != had {
		t.Errorf("%d of %d floating IPs are left without consent", n, had)
	}
	if err := apply(provider.ConsentAddresses); err != nil || held() != had-1 {
		t.Errorf("%d of %d floating IPs are left: %v", held(), had, err)
	}
}
