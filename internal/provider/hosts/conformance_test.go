package hosts

import (
	"testing"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/providertest"
)

// TestConformance checks the provider's interface with hosts in memory; TestConformanceOnMachines (tag integration) with real ones.
func TestConformance(t *testing.T) {
	net, known := newLAN(), &memory{}
	doc := document(t, "        - {address: 192.0.2.11, role: gateway}\n  endpoint: {kind: gateways, vip: 192.0.2.10, gateways: {replicas: 1}}\n")
	want := provider.Wanted{VIP: true}
	for _, m := range doc.Machines() {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
	}
	worker := doc.Machines()[2].Host.Address
	providertest.Run(t, providertest.Place{
		Provider: func(testing.TB) provider.Provider { return hasty(doc, net, known) },
		Want:     want,
		Things:   func(testing.TB) []string { return names(known.known) },
		Off:      func(testing.TB, string) { net.off[worker] = "no route to host" },
		On:       func(testing.TB, string) { delete(net.off, worker) },
	})
}
