package firewall

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRules compares the rules of each role's security group with golden files.
func TestRules(t *testing.T) {
	for name, spec := range map[string]string{
		"direct": `  provider:
    openstack:
      externalNetwork: public
      trustOnFirstUse: true
      network: {cidr: 10.77.0.0/24}
      machine: {flavor: v1.small, image: debian-12, rootVolumeGiB: 1}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1, machine: {floatingIP: true}}
  workers:
    - {name: w, replicas: 1}
`,
		"gateways": `  provider: {openstack: {cloud: c, machine: {flavor: f, image: i}, network: {cidr: 10.77.0.0/24}}}
  endpoint: {kind: gateways}
  workers: [{name: w, replicas: 2}]
  access:
    sshCIDRs: [192.0.2.0/24]
    apiCIDRs: [192.0.2.0/24, 203.0.113.0/24]
    nodePortCIDRs: [198.51.100.7/32]
    wireguard: {peers: [{name: anna}]}
`,
		"web": `  provider: {openstack: {cloud: c, machine: {flavor: f, image: i}, network: {cidr: 10.77.0.0/24}}}
  endpoint: {kind: gateways, gateways: {ingress: {}}}
  workers: [{name: w, replicas: 2}]
`,
		"ovn": `  provider: {openstack: {cloud: c, machine: {flavor: f, image: i}, network: {cidr: 10.77.0.0/24}}}
  endpoint: {kind: octavia, octavia: {provider: ovn, allowedCIDRs: [203.0.113.0/24], ingress: {}}}
  workers: [{name: w, replicas: 2}]
`,
		"octavia": `  provider: {openstack: {cloud: c, machine: {flavor: f, image: i, floatingIP: false}, network: {cidr: 10.77.0.0/24}}}
  endpoint: {kind: octavia}
  kubernetes: {cni: none}
  smokeTest: false
  controlPlane: {replicas: 1, schedulable: true}
`,
	} {
		t.Run(name, func(t *testing.T) {
			doc := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n" + spec
			a := AccessOf(testkit.Value(validation.Parse("test.yaml", []byte(doc)))(t), "10.77.0.0/24")
			var b strings.Builder
			for _, r := range a.Roles {
				fmt.Fprintf(&b, "%s\n", r)
				for _, rule := range a.Rules(r) {
					fmt.Fprintf(&b, "  %s\n", rule)
				}
			}
			testkit.Golden(t, "rules-"+name+".golden", b.String())
		})
	}
}

// String is a rule for people.
func (r Rule) String() string {
	s := r.direction + " " + r.ether
	if r.protocol != "" {
		s += " " + r.protocol
	}
	if r.first != 0 {
		s += fmt.Sprintf(" %d-%d", r.first, r.last)
	}
	if r.cidr != "" {
		s += " from " + r.cidr
	}
	if r.from != "" {
		s += " from " + string(r.from)
	}
	return s
}

// TestSameRule: Same recognizes rules in Neutron's normalized form.
func TestSameRule(t *testing.T) {
	want := rules.CreateOpts{Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortRangeMin: 22, PortRangeMax: 22, RemoteIPPrefix: "0.0.0.0/0"}
	have := rules.SecGroupRule{Direction: "ingress", EtherType: "IPv4", Protocol: "6", PortRangeMin: 22, PortRangeMax: 22}
	if !Same(have, want) {
		t.Error("no prefix and 0.0.0.0/0 are the same")
	}
	have.RemoteIPPrefix = "192.0.2.0/24"
	if Same(have, want) {
		t.Error("one network is not everywhere")
	}
	have.RemoteIPPrefix, have.RemoteAddressGroupID = "", "x"
	if Same(have, want) {
		t.Error("an address group is not everywhere")
	}
	if !Same(rules.SecGroupRule{Direction: "ingress", EtherType: "IPv4", Protocol: "vrrp", RemoteGroupID: "g"},
		rules.CreateOpts{Direction: "ingress", EtherType: "IPv4", Protocol: "112", RemoteGroupID: "g"}) {
		t.Error("vrrp is protocol 112")
	}
}
