package openstack

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestCloudWithoutVolumes: a cloud without volumes serves a cluster that needs none, and the cluster can be destroyed; a warning names the missing
// service.
func TestCloudWithoutVolumes(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.lacks = "block-storage"
	empty := f.listing()
	m := &doc.Spec.Provider.OpenStack.Machine
	m.RootVolumeGiB, m.Zones = nil, []string{"a"}
	p := fakeProvider(t, f, doc)
	if p.NoVolumes() != "" {
		t.Error("nobody has looked yet")
	}
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	info, err := p.CloudInfo(t.Context())
	if err != nil || info.IgnoreVolumeZone || !strings.Contains(p.NoVolumes(), "no block-storage service") {
		t.Errorf("%+v %q: %v", info, p.NoVolumes(), err)
	}
	check := preflight{Provider: p, c: p.session.c, want: wanted(doc), found: &findings{}}
	check.volumes()
	if len(check.found.odd) != 1 || !strings.Contains(check.found.odd[0], "PersistentVolumeClaims will get no volumes") || len(check.found.all()) > 0 {
		t.Errorf("%q %q", check.found.odd, check.found.all())
	}
	doc.Spec.Workers[0].Machine.RootVolumeGiB = new(10)
	check.volumes()
	if all := check.found.all(); len(all) != 1 || !strings.Contains(all[0], "no block-storage service, and pool w wants root volumes") {
		t.Errorf("%q", all)
	}
	_, err = p.volumes.Create(t.Context(), check.want.Machines[1])
	testkit.Fails(t, err, fail.Refused, "block-storage service", "rootVolumeGiB")
	if left, err := p.Leftovers(t.Context()); err != nil || len(left.Volumes) > 0 {
		t.Errorf("%v: %v", left, err)
	}
	steps := append([]*plan.Step{p.FreeLeftovers(provider.Leftovers{}, false)}, p.Destroy(t.Context(), nil)...)
	if err := execute(t.Context(), "destroy", steps); err != nil {
		t.Fatal(err)
	}
	if got := f.listing(); !slices.Equal(got, empty) {
		t.Error(difference(got, empty))
	}
}

// TestVolumesOutOfSight: where the catalogue shows no volumes and machines have some, nothing is done that could forget them.
func TestVolumesOutOfSight(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	f.lacks = "block-storage"
	testkit.Fails(t, destroy(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "it has a root volume", "no block-storage service", "interface")
}
