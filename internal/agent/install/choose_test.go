package install

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/testkit"
)

const gib = int64(1) << 30

func TestChoose(t *testing.T) {
	disk := func(path, serial string, gb int64, holds ...string) facts.Disk {
		return facts.Disk{Path: "/dev/" + path, Serial: serial, SizeBytes: gb * gib, Holds: holds}
	}
	usb := disk("sdz", "U", 30)
	usb.Removable = true
	for name, c := range map[string]struct {
		rule  order.Disk
		data  []string
		disks []facts.Disk
		ours  string // serial number of a disk that we have installed
		want  string // path; or, with spaces, words of the refusal
	}{
		"the smallest that fits":              {disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40), disk("sdc", "C", 10)}, want: "/dev/sdb"},
		"of two alike the same each time":     {disks: []facts.Disk{disk("sdb", "B", 40), disk("sda", "A", 40)}, want: "/dev/sda"},
		"none":                                {want: "the machine has none"},
		"too small":                           {disks: []facts.Disk{disk("sda", "A", 16)}, want: "has 16384 MiB, and 17"},
		"smaller than the rule":               {rule: order.Disk{MinBytes: 60 * gib}, disks: []facts.Disk{disk("sda", "A", 40), disk("sdb", "B", 100)}, want: "/dev/sdb"},
		"larger slots":                        {rule: order.Disk{SlotBytes: 30 * gib}, disks: []facts.Disk{disk("sda", "A", 40), disk("sdb", "B", 100)}, want: "/dev/sdb"},
		"by serial number":                    {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"no such serial number":               {rule: order.Disk{Serial: "X"}, disks: []facts.Disk{disk("sda", "A", 100)}, want: "another one than X"},
		"two of a serial number":              {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "A", 100)}, want: "2 disks have the serial"},
		"a data disk":                         {data: []string{"B"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"a data disk, though consented":       {rule: order.Disk{Consent: []string{"A"}}, data: []string{"A"}, disks: []facts.Disk{disk("sda", "A", 100)}, want: "is a data disk"},
		"a foreign file system":               {disks: []facts.Disk{disk("sda", "A", 40, "xfs"), disk("sdb", "B", 100)}, want: "/dev/sdb"},
		"only foreign ones":                   {disks: []facts.Disk{disk("sda", "A", 40, "gpt", "xfs")}, want: "holds gpt, xfs, which is not ours"},
		"foreign, named by its serial number": {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{disk("sda", "A", 40, "ceph")}, want: "holds ceph"},
		"consented":                           {rule: order.Disk{Consent: []string{"A"}}, disks: []facts.Disk{disk("sda", "A", 40, "xfs")}, want: "/dev/sda"},
		"consent needs a serial number":       {rule: order.Disk{Consent: []string{""}}, disks: []facts.Disk{disk("sda", "", 40, "xfs")}, want: "holds xfs"},
		"consent for another one":             {rule: order.Disk{Consent: []string{"B"}}, disks: []facts.Disk{disk("sda", "A", 40, "xfs")}, want: "holds xfs"},
		"ours before a smaller one":           {ours: "A", disks: []facts.Disk{disk("sda", "A", 100, "gpt", "ext"), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"ours, but a data disk now":           {ours: "A", data: []string{"A"}, disks: []facts.Disk{disk("sda", "A", 100, "gpt"), disk("sdb", "B", 40)}, want: "/dev/sdb"},
		"what can be taken out":               {disks: []facts.Disk{usb}, want: "can be taken out"},
		"what can be taken out, by its name":  {rule: order.Disk{Serial: "U"}, disks: []facts.Disk{usb}, want: "/dev/sdz"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &order.Order{UUID: "m", Disk: c.rule, Data: c.data}
			d, err := Choose(o, c.disks, func(d facts.Disk) bool { return c.ours != "" && d.Serial == c.ours })
			if strings.HasPrefix(c.want, "/") {
				if err != nil || d.Path != c.want {
					t.Errorf("%s, %v", d.Path, err)
				}
				return
			}
			testkit.Fails(t, err, fail.Refused, c.want)
		})
	}
}
