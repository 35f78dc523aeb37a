package openstack

import (
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

const octaviaEndpoint = "endpoint: {kind: octavia, octavia: {ingress: {}}}"

const octaviaDocument = `
apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: t4}
spec:
  provider:
    openstack:
      cloud: naupegos
      externalNetwork: public
      network: {cidr: 10.87.0.0/24}
      machine: {flavor: m1.medium, image: debian-12, rootVolumeGiB: 10}
  ` + octaviaEndpoint + `
  controlPlane: {replicas: 3, machine: {floatingIP: true}}
  workers: [{name: general, replicas: 2}]
`

// frontProvider returns the provider of a document, and the wanted cluster. Nothing is known to exist.
func frontProvider(t *testing.T, document string) (*Provider, provider.Wanted) {
	t.Helper()
	return providerOf(t, document, Options{ClusterID: "t4-0000abcd", PublicKey: "ssh-ed25519 AAAA t4"})
}

func providerOf(t *testing.T, document string, o Options) (*Provider, provider.Wanted) {
	t.Helper()
	doc, err := validation.Parse("t4.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster = doc
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Wanted{VIP: doc.GatewayCount() > 0}
	for _, m := range doc.Machines() {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
	}
	return p, want
}

// TestVIPOfOctavia: the load balancer's address is the API's, and an internal one has no floating IP.
func TestVIPOfOctavia(t *testing.T) {
	useFake(t)
	p := fakeProvider(t, newFakeCloud(), withBalancer(t, "internal: true"))
	if _, err := p.VIP(t.Context()); err == nil {
		t.Error("there is a virtual address before there is a load balancer")
	}
	testkit.Must(t, apply(t.Context(), p))
	if vip, err := p.VIP(t.Context()); err != nil || vip == "" || vip != p.balancer.Seen().LB.VipAddress {
		t.Errorf("VIP %q, %v", vip, err)
	}
	if _, err := p.PublicVIP(t.Context()); err == nil {
		t.Error("an unexpected floating IP exists")
	}
}
