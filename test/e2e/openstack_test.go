//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestOpenStack takes two clusters on the real OpenStack services of test/openstack through the life of local ones: one behind Octavia, with
// Services and claims served by the cloud, and one behind gateways, in a region that uses TLS with a private authority and has no Octavia. make test
// runs the first.
func TestOpenStack(t *testing.T) {
	c := newCloud(t)
	t.Run("octavia", func(t *testing.T) {
		t.Parallel()
		r, s := c.rig(t, "lb", 0)
		z, edited := size{controlPlanes: 1, workers: 1}, size{controlPlanes: 1, workers: 2, extra: auditLog}
		if testkit.Full() {
			edited.controlPlanes = 3
		}
		r.document(z)
		_, noSecret := r.applySearched(t) // its smoke test uses a Service and a claim
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
			// The edit restarts cp-1. The next step waits for it, while members join with machines that did not exist when the wait began.
			{"scale up", scaleTo(edited)},
			{"a control-plane machine dies and is replaced", func(t *testing.T, r *rig, l *load) {
				testkit.OnlyFull(t, "TestLife replaces one")
				controlPlaneDies(t, r, l)
			}},
		})
		l.end()
		r.live(t, nil, []part{{"the cluster is reset and built again", cloudReset}})
		r.destroy()
	})
	t.Run("gateways", func(t *testing.T) {
		testkit.OnlyFull(t, "make test has one cluster in the cloud")
		t.Parallel()
		c.refusesBalancers(t)
		r, s := c.rig(t, "gw", 1)
		s.entry = bed.TLSCloud
		z := size{controlPlanes: 1, workers: 2, gateways: 2}
		r.document(z)
		asked := s.tlsRequests()
		applied, noSecret := r.applySearched(t) // its smoke test uses only a claim
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
			{"a gateway dies", gatewayDies},
			{"scale down", scaleTo(z)},
		})
		l.end()
		r.destroy()
	})
}

// cloudReset removes Kubernetes from all servers of a cluster, which stay, and builds another cluster on them.
func cloudReset(t *testing.T, r *rig, _ *load) {
	testkit.OnlyFull(t, "TestHostsProvider resets hosts")
	var machines []string
	for _, m := range r.status().Machines {
		machines = append(machines, m.Name)
	}
	r.resetsAll(t, machines...)
}

// applySearched applies, and returns the part of the cluster's life that searches for its secrets.
func (r *rig) applySearched(t *testing.T) (applied result, noSecret part) {
	t.Helper()
	args := testkit.WatchArguments(t)
	applied = r.apply()
	return applied, part{"no secret is anywhere", func(_ *testing.T, r *rig, _ *load) { r.secretsNowhere(args, applied) }}
}

// TestOpenStackUpgrade upgrades a cluster behind Octavia from the former release to the default under a client. The roll of its workers boots one
// more machine, with an address that is unknown before.
func TestOpenStackUpgrade(t *testing.T) {
	testkit.OnlyFull(t, "TestHA upgrades behind gateways, and TestOpenStack rolls a control plane behind Octavia")
	c := newCloud(t)
	ensureBundle(t, release.Former(1))
	r, _ := c.rig(t, "up", 0)
	z := size{controlPlanes: 3, workers: 1, kubernetes: release.Former(1)}
	r.document(z)
	r.apply()
	r.sameCluster(z)
	l := startLoad(t, r)
	l.flows(t, 5)
	r.live(t, l, []part{{"an upgrade is finished", upgradeFinished}, {"second apply changes nothing", secondApply}})
	l.end()
	r.destroy()
}
