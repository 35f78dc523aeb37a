package openstack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/providertest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestConformance takes a cluster with gateways and a pool of workers through its life in a fake cloud, where others have things with names
// like the cluster's. TestConformanceOnTheRealServices (tag openstack) does the same in a real one.
func TestConformance(t *testing.T) {
	for name, spec := range map[string]string{
		"direct": endpoint("direct", 1), "gateways": endpoint("gateways", 1), "octavia": endpoint("octavia", 3),
	} {
		t.Run(name, func(t *testing.T) {
			useFake(t)
			f := newFakeCloud()
			f.balancing, f.console = balancerVersion, consoleWith(strings.TrimSpace(testKey))
			stranger := testDocument(t, "t3", strings.ReplaceAll(conformanceSpec, "ENDPOINT", endpoint("direct", 1)))
			testkit.Must(t, apply(t.Context(), fakeProvider(t, f, stranger, func(o *Options) { o.ClusterID = "t3-life"; o.HostKeys = &sessionKeys{} })))
			f.add("networks", thing{"name": "t3-life-0badc0de", "description": "naupegos-cluster=t3-life-0badc0de0"})
			f.add("volumes", thing{"name": "t3-life-cp-1", "status": "available", "metadata": thing{"naupegos_cluster": "t3-life"}})

			doc, memory := testDocument(t, "t3-life", strings.ReplaceAll(conformanceSpec, "ENDPOINT", spec)), &sessionKeys{}
			remember := func(o *Options) {
				o.HostKeys, o.Timeouts.Console, o.Calls.HTTPClient = memory, time.Minute, &http.Client{Transport: unlimited{f}}
			}
			providertest.Run(t, providertest.Place{
				Provider: func(t testing.TB) provider.Provider { return fakeProvider(t, f, doc, remember) },
				Want:     wanted(doc),
				Refused: func(t testing.TB) (provider.Provider, provider.Wanted) {
					bad := testDocument(t, "t3-life", strings.ReplaceAll(strings.ReplaceAll(conformanceSpec, "ENDPOINT", spec), "m1.small", "m1.none"))
					return fakeProvider(t, f, bad, remember), wanted(bad)
				},
				Things: func(testing.TB) []string { return f.listing() },
				Off:    func(_ testing.TB, machine string) { f.switchOff(machine) },
				Login: func(t testing.TB, m provider.Machine) { // as far as a machine in memory can be logged in to
					if !slices.Equal(m.HostKeys, []string{strings.TrimSpace(testKey)}) {
						t.Errorf("%s has the host keys %v", m.Name, m.HostKeys)
					}
				},
				Limit: time.Minute,
			})
		})
	}
}

const conformanceSpec = `  provider:
    openstack:
      externalNetwork: public
      network: {cidr: 10.77.0.0/24}
      machine: {flavor: m1.small, image: debian-12, rootVolumeGiB: 1}
ENDPOINT  workers:
    - {name: a, replicas: 1}
    - {name: b, replicas: 2}
`

func endpoint(kind string, controlPlanes int) string {
	return fmt.Sprintf("  endpoint: {kind: %s}\n  controlPlane: {replicas: %d}\n", kind, controlPlanes)
}

// switchOff takes a server's power away.
func (f *fakeCloud) switchOff(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.kinds["servers"] {
		if s.str("name") == name {
			s["status"] = "SHUTOFF"
		}
	}
}

// unlimited is a fake cloud that has quotas, though no limits.
type unlimited struct{ *fakeCloud }

// RoundTrip answers for quotas.
func (u unlimited) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, quotas := range []string{"/limits", "/os-quota-sets/", "/quotas/"} {
		if strings.Contains(r.URL.Path, quotas) {
			return u.empty(r)
		}
	}
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/os-keypairs") {
		return u.empty(r)
	}
	return u.fakeCloud.RoundTrip(r)
}

func (u unlimited) empty(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	answer(w, http.StatusOK, thing{})
	return w.Result(), nil
}
