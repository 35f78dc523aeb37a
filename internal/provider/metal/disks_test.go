package metal

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestDocumentNamesDisks: a document that names a disk which no machine of the pool has is refused by the plan. An order names its machine's disks, and
// protects those of others all the same.
func TestDocumentNamesDisks(t *testing.T) {
	k, doc := newRack(t, 4), document(t, plain)
	ctx, p := t.Context(), k.provider(doc)
	pool := func(d v1alpha1.MetalDisk) {
		d.MinGiB = 20
		doc.Spec.Provider.Metal.Pools = []v1alpha1.MetalPool{{Name: "general", Strategy: "reboot", Disk: d}}
	}
	for field, d := range map[string]v1alpha1.MetalDisk{"data": {Data: []string{"DISK1", "X"}}, "serial": {Serial: "X"}, "overwrite": {Overwrite: []string{"X"}}} {
		pool(d)
		if err := p.Preflight(ctx, wanted(doc)); field != "serial" || err == nil {
			testkit.Fails(t, fail.Whole(err), fail.Refused, "disk with the serial number or WWID X", "DISK2")
			if !strings.Contains(err.Error(), "spec.provider.metal.pools[0].disk."+field) {
				t.Error(err)
			}
		}
	}
	pool(v1alpha1.MetalDisk{Data: []string{"disk4", "DISK3"}, Overwrite: []string{"DISK1", "DISK2"}})
	m := testkit.Value(k.reg.Machine(ctx, uuidOf(3)))(t)
	here, elsewhere := diskNames(m, []string{"disk4", "DISK3"})
	if !slices.Equal(here, []string{"DISK3"}) || !slices.Equal(elsewhere, []string{"disk4"}) {
		t.Errorf("%v, %v", here, elsewhere)
	}
}

// TestDiskLacks: the plan says why no disk of a machine fits, as its agent would.
func TestDiskLacks(t *testing.T) {
	disk := func(change func(*facts.Disk)) facts.Disk {
		d := facts.Disk{Path: "/dev/sda", SizeBytes: 100 << 30, Serial: "A"}
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		rule  v1alpha1.MetalDisk
		disks []facts.Disk
		want  string // empty: one fits
	}{
		"empty":             {disks: []facts.Disk{disk(func(*facts.Disk) {})}},
		"ours":              {disks: []facts.Disk{disk(func(d *facts.Disk) { d.Holds = []string{"gpt", facts.Ours} })}},
		"unfinished":        {disks: []facts.Disk{disk(func(d *facts.Disk) { d.Holds = []string{facts.Unfinished} })}},
		"foreign":           {disks: []facts.Disk{disk(func(d *facts.Disk) { d.Holds = []string{"zfs"} })}, want: "holds zfs, and disk.overwrite does not name it"},
		"consented":         {rule: v1alpha1.MetalDisk{Overwrite: []string{"a"}}, disks: []facts.Disk{disk(func(d *facts.Disk) { d.Holds = []string{"zfs"} })}},
		"a data disk":       {rule: v1alpha1.MetalDisk{Data: []string{"A"}}, disks: []facts.Disk{disk(func(*facts.Disk) {})}, want: "wants a disk of at least 20 GiB"},
		"too small":         {disks: []facts.Disk{disk(func(d *facts.Disk) { d.SizeBytes = 1 << 30 })}, want: "wants a disk of at least 20 GiB"},
		"4Kn":               {disks: []facts.Disk{disk(func(d *facts.Disk) { d.SectorBytes = 4096 })}, want: "sectors of 4096"},
		"4Kn and a fit one": {disks: []facts.Disk{disk(func(d *facts.Disk) { d.SectorBytes = 4096 }), disk(func(d *facts.Disk) { d.Path = "/dev/sdb" })}},
		"a LUN":             {disks: []facts.Disk{disk(func(d *facts.Disk) { d.Type = facts.DiskFC })}, want: "where other machines may have it, too: disk.serial can name it"},
		"a LUN by its name": {rule: v1alpha1.MetalDisk{Serial: "A"}, disks: []facts.Disk{disk(func(d *facts.Disk) { d.Type = facts.DiskISCSI })}},
		"by WWID":           {rule: v1alpha1.MetalDisk{Serial: "0x5000c500a1b2c3d4"}, disks: []facts.Disk{disk(func(d *facts.Disk) { d.WWID = "naa.5000c500a1b2c3d4" })}},
		"by another number": {rule: v1alpha1.MetalDisk{Serial: "B"}, disks: []facts.Disk{disk(func(*facts.Disk) {})}, want: "wants the disk B of at least 20 GiB"},
	} {
		c.rule.MinGiB = 20
		m := &registry.Machine{Facts: &facts.Discovery{Disks: c.disks}}
		if got := diskLacks(v1alpha1.MetalPool{Name: "general", Disk: c.rule}, m); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
