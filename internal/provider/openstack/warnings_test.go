package openstack

import (
	"strings"
	"testing"
)

// TestWarnings: possible, but probably unintended wishes.
func TestWarnings(t *testing.T) {
	const (
		begin  = "  provider:\n    openstack:\n      externalNetwork: public\n      trustOnFirstUse: true\n      machine: {flavor: m1.small, image: %, rootVolumeGiB: 1}\n"
		made   = begin + "      network: {cidr: 10.77.0.0/24}\n"
		octa   = "  endpoint: {kind: octavia}\n  workers: [{name: w}]\n"
		inside = "no machine gets a floating IP"
	)
	for name, c := range map[string]struct {
		spec, image string
		says        string // empty: nothing
	}{
		"nobody outside gets in":      {made + octa, "debian-12", inside},
		"one machine is a way in":     {made + octa + "  controlPlane: {machine: {floatingIP: true}}\n", "debian-12", ""},
		"gateways are":                {made + "  endpoint: {kind: gateways}\n  workers: [{name: w}]\n", "debian-12", ""},
		"the network is the user's":   {begin + "      network: {existing: mine}\n" + octa, "debian-12", ""},
		"its router is":               {begin + "      network: {cidr: 10.77.0.0/24, router: mine}\n" + octa, "debian-12", ""},
		"the cluster's bundle":        {made + octa + "  controlPlane: {machine: {floatingIP: true}}\n", "ours", ""},
		"another bundle":              {made + octa + "  controlPlane: {machine: {floatingIP: true}}\n", "rebuilt", "image rebuilt of control-plane has another bundle of Kubernetes v"},
		"another release":             {made + octa + "  controlPlane: {machine: {floatingIP: true}}\n", "older", "image older of control-plane has Kubernetes v1.0.0 inside"},
		"gateways have no Kubernetes": {made + "  endpoint: {gateways: {machine: {image: older}}}\n  workers: [{name: w}]\n", "ours", ""},
	} {
		t.Run(name, func(t *testing.T) {
			useFake(t)
			doc := testDocument(t, "t3-warn", strings.Replace(c.spec, "%", c.image, 1))
			release := doc.Spec.Kubernetes.Version
			cloud := newFakeCloud()
			cloud.add("networks", thing{"name": "mine"})
			cloud.add("images", thing{"name": "ours", "status": "active", PropertyBundle: "b1", PropertyKubernetes: release})
			cloud.add("images", thing{"name": "rebuilt", "status": "active", PropertyBundle: "b2", PropertyKubernetes: release})
			cloud.add("images", thing{"name": "older", "status": "active", PropertyBundle: "b0", PropertyKubernetes: "v1.0.0"})
			p := fakeProvider(t, cloud, doc)
			p.opts.BundleID = "b1"
			c0, err := p.cloud(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f := preflight{Provider: p, c: c0, want: wanted(doc), found: &findings{}}
			f.waysIn()
			if err := f.shapes(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(f.found.odd, "\n")
			if got != c.says && (c.says == "" || !strings.Contains(got, c.says)) {
				t.Errorf("it says %q, want %q", got, c.says)
			}
		})
	}
}
