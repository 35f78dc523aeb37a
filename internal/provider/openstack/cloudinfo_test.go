package openstack

import "testing"

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
		var i CloudInfo
		i.placeVolumes(c.volumes, c.nodes)
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
