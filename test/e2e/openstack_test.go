//go:build e2e

package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestOpenStack takes two clusters on the real OpenStack services of test/openstack through the life of local ones: one behind
// Octavia, with Services and claims that the cloud serves, and one behind gateways, in a region that speaks TLS with a certificate
// of a private authority and has no Octavia.
func TestOpenStack(t *testing.T) {
	c := newCloud(t)
	searched := testkit.Sample(t, 1, []string{"octavia", "gateways"})
	t.Run("octavia", func(t *testing.T) {
		t.Parallel()
		r, s := c.rig(t, "lb", 0)
		z := size{controlPlanes: 1, workers: 1}
		r.document(z)
		_, noSecret := r.applySearched(t, slices.Contains(searched, "octavia")) // its smoke test asks for a Service and a claim
		s.alike = c.api.plantLookAlikes(t, r)
		r.sameCluster(z)
		l := startLoad(t, r)
		l.flows(t, 5)
		r.live(t, l, []part{
			{"second apply changes nothing", secondApply},
			noSecret,
			{"it passes its test", func(t *testing.T, r *rig, _ *load) {
				if got := r.passesItsTest(t)["cloud"]; !strings.Contains(got, "asked from here") {
					t.Errorf("of the cloud its test says %q", got)
				}
			}},
			// What restarts cp-1 has the next wait for it, while members join whose machines did not exist when it began to wait.
			{"scale up", scaleTo(size{controlPlanes: 3, workers: 2, extra: auditLog})},
			{"a control-plane machine dies and is replaced", controlPlaneDies},
		})
		l.end()
		r.destroy()
	})
	t.Run("gateways", func(t *testing.T) {
		t.Parallel()
		c.refusesBalancers(t)
		r, s := c.rig(t, "gw", 1)
		s.entry = bed.TLSCloud
		z := size{controlPlanes: 1, workers: 2, gateways: 2}
		r.document(z)
		asked := s.tlsRequests()
		applied, noSecret := r.applySearched(t, slices.Contains(searched, "gateways")) // its smoke test asks for a claim alone
		s.alike = c.api.plantLookAlikes(t, r)
		r.sameCluster(z)
		s.behindTLS(r, applied, asked)
		l := startLoad(t, r)
		l.flows(t, 5)
		z.workers = 1
		r.live(t, l, []part{
			{"second apply changes nothing", secondApply},
			noSecret,
			{"a hand-over lets in", handedOver},
			{"another credential of the cloud", credentialRotated},
			{"a gateway dies", func(t *testing.T, r *rig, l *load) {
				testkit.OnlyFull(t, "TestHA has one die")
				gatewayDies(t, r, l)
			}},
			{"scale down", scaleTo(z)},
		})
		l.end()
		r.destroy()
	})
}

// applySearched applies, and returns the part of the cluster's life that searches for its secrets, which takes a minute: where wanted is
// false, it is skipped.
func (r *rig) applySearched(t *testing.T, wanted bool) (applied result, noSecret part) {
	t.Helper()
	noSecret.name = "no secret is anywhere"
	if !wanted {
		noSecret.do = func(t *testing.T, _ *rig, _ *load) {
			t.Skip("this run searches the other cluster; with -full (make test-full) both are searched")
		}
		return r.apply(), noSecret
	}
	args := testkit.WatchArguments(t)
	applied = r.apply()
	noSecret.do = func(_ *testing.T, r *rig, _ *load) { r.secretsNowhere(args, applied) }
	return applied, noSecret
}
