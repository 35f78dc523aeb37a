package metal

import (
	"slices"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/providertest"
	"github.com/naupegos/naupegos/internal/testkit"
)

const conformanceSpec = `  provider:
    metal:
      pools:
        - {name: control-plane, facts: {manufacturer: "Dell*"}, minCPUs: 4}
        - {name: general, minMemoryGiB: 32}
  controlPlane: {replicas: 1}
  endpoint: {vip: 10.0.0.250, gateways: {replicas: 1}}
  workers: [{name: general, replicas: 2}]
`

// TestConformance takes a cluster through its life in a rack of machines in memory, of which others have some.
func TestConformance(t *testing.T) {
	k, doc := newRack(t, 6), document(t, conformanceSpec)
	testkit.Must(t, k.reg.Assign(t.Context(), uuidOf(2), "demo-2", "general"))
	k.add(7) // not approved
	more := document(t, conformanceSpec)
	more.Spec.Provider.Metal.Pools[1].MinCPUs = 64
	providertest.Run(t, providertest.Place{
		Provider: func(testing.TB) provider.Provider { return k.provider(doc) },
		Want:     wanted(doc),
		Refused:  func(testing.TB) (provider.Provider, provider.Wanted) { return k.provider(more), wanted(more) },
		Things:   func(testing.TB) []string { return k.listing() },
		Off: func(_ testing.TB, machine string) {
			u := k.unitOf(k.provider(doc), machine)
			k.mu.Lock()
			u.on = false
			k.mu.Unlock()
		},
		Login: func(t testing.TB, m provider.Machine) { // as far as a machine in memory can be logged in to
			if !slices.Equal(m.HostKeys, []string{rackKey}) {
				t.Errorf("%s has the host keys %v", m.Name, m.HostKeys)
			}
		},
		Limit: 2 * time.Minute,
	})
}
