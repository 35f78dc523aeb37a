package openstack

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestWhereVolumesAreMade(t *testing.T) {
	for _, c := range []struct {
		name           string
		volumes, nodes []string
		zone           string // of all volumes; empty: that of the node
	}{
		{"the same zones", []string{"a", "b"}, []string{"b", "a"}, ""},
		{"one zone for volumes", []string{"nova"}, []string{"a", "b"}, "nova"},
		{"one zone of many has no volumes", []string{"a", "b"}, []string{"a", "c"}, "a"},
		{"a cloud without zones for volumes", nil, []string{"a"}, ""},
	} {
		var i provider.CloudInfo
		placeVolumes(&i, c.volumes, c.nodes)
		if i.VolumeZone != c.zone || i.IgnoreVolumeZone != (c.zone != "") {
			t.Errorf("%s: %+v", c.name, i)
		}
	}
}

// TestZonesOfNodes wants the cloud to be asked only where the document leaves a node's zone to it.
func TestZonesOfNodes(t *testing.T) {
	doc := testDocument(t, "t3-zones", `  provider:
    openstack:
      externalNetwork: public
      machine: {flavor: v1.small, image: debian-12, zones: [a, b]}
  endpoint: {kind: gateways}
  workers:
    - {name: w, replicas: 1, machine: {zones: [c]}}
`)
	p, calls := testProvider(t, doc, "t3-zones-0badc0de")
	zones, err := p.nodeZones(t.Context())
	if err != nil || calls.n.Load() != 0 {
		t.Errorf("%v, %d calls", err, calls.n.Load())
	}
	for _, want := range []string{"a", "b", "c"} {
		found := false
		for _, z := range zones {
			found = found || z == want
		}
		if !found {
			t.Errorf("no zone %s among %v", want, zones)
		}
	}
}

// TestZonesThatAreAway: zones in maintenance do not change where volumes are made, for a StorageClass is immutable; no server and no root volume is made there.
func TestZonesThatAreAway(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.zones = []string{"a", "b"}
	for _, away := range [][]string{nil, {"a"}} {
		f.away = away
		p := fakeProvider(t, f, doc)
		info := provider.CloudInfo{}
		placeVolumes(&info, testkit.Value(p.existing.VolumeZones(t.Context(), true))(t), testkit.Value(p.existing.ServerZones(t.Context(), true))(t))
		if !info.IgnoreVolumeZone || info.VolumeZone != "a" {
			t.Errorf("%v are away: %+v", away, info)
		}
		if now := testkit.Value(p.existing.ServerZones(t.Context(), false))(t); slices.Contains(now, "a") == slices.Contains(away, "a") {
			t.Errorf("%v are away, and servers are made in %v", away, now)
		}
		if root := testkit.Value(p.existing.VolumeZoneFor(t.Context(), "a"))(t); (root == "a") == slices.Contains(away, "a") {
			t.Errorf("%v are away, and the root volume of a machine in a is made in %q", away, root)
		}
	}
}

// TestRootVolumesAreWhereTheirMachinesAre, where volumes can be made there; else the cloud chooses.
func TestRootVolumesAreWhereTheirMachinesAre(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	doc.Spec.ControlPlane.Machine.Zones, doc.Spec.Workers[0].Machine.Zones = []string{"a"}, []string{"b"}
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	for _, v := range f.kinds["volumes"] {
		want := map[string]string{"t3-life-cp-1": "a", "t3-life-w-1": ""}[v.str("name")]
		if got := v.str("availability_zone"); got != want {
			t.Errorf("the volume of %s is made in zone %q, not %q", v.str("name"), got, want)
		}
	}
}

// TestCloudWithoutLoadBalancers: a cloud without load balancing serves a cluster with gateways; a warning names the missing service.
func TestCloudWithoutLoadBalancers(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	doc.Spec.Provider.OpenStack.Machine.Zones = []string{"a"}
	f.lacks = "load-balancer"
	p := fakeProvider(t, f, doc)
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if info, err := p.CloudInfo(t.Context()); err != nil || !info.NoLoadBalancers || !strings.Contains(p.NoBalancing(), "no load-balancer service") {
		t.Errorf("%+v %q: %v", info, p.NoBalancing(), err)
	}
	f.lacks = ""
	f.fault = func(_ int, call string) fault0 {
		if strings.Contains(call, "loadbalancers") {
			return fault0{status: 403, text: "Policy does not allow this request to be performed."}
		}
		return fault0{}
	}
	p = fakeProvider(t, f, doc)
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if info, err := p.CloudInfo(t.Context()); err != nil || info.NoLoadBalancers || !strings.Contains(p.NoBalancing(), "load-balancer_member") {
		t.Errorf("%+v %q: %v", info, p.NoBalancing(), err)
	}
}

// TestBalancerOutOfSight: if the catalogue has no load balancing, a cluster that wants it and has nothing yet can be destroyed; an existing cluster
// is not changed, so that its load balancer is not forgotten. TestBehindTLS checks Preflight's error in a real cloud.
func TestBalancerOutOfSight(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), testDocument(t, "t3-life", strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{kind: octavia}").Replace(smallSpec))
	f.lacks = "load-balancer"
	if err := destroy(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Error(err)
	}
	f.lacks = ""
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	f.lacks = "load-balancer"
	testkit.Fails(t, destroy(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "find the load-balancer service")
}
