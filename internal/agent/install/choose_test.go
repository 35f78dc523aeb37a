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
	wide := func(path, serial, wwid string, holds ...string) facts.Disk {
		d := disk(path, serial, 100, holds...)
		d.WWID = wwid
		return d
	}
	odd := func(change func(*facts.Disk)) facts.Disk {
		d := disk("sdx", "O", 40)
		change(&d)
		return d
	}
	usb := disk("sdz", "U", 30)
	usb.Removable = true
	for name, c := range map[string]struct {
		rule  order.Disk
		data  []string
		disks []facts.Disk

		elsewhere []string

		ours   string           // serial number of a disk that Naupegos installed
		owners map[string]Owner // by serial number
		want   string           // path; or, with spaces, words of the refusal
	}{
		"the smallest that fits":                {disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40), disk("sdc", "C", 10)}, want: "/dev/sdb"},
		"of two alike the same each time":       {disks: []facts.Disk{disk("sdb", "B", 40), disk("sda", "A", 40)}, want: "/dev/sda"},
		"none":                                  {want: "the machine has none"},
		"too small":                             {disks: []facts.Disk{disk("sda", "A", 16)}, want: "has 16384 MiB, and 17"},
		"smaller than the rule":                 {rule: order.Disk{MinBytes: 60 * gib}, disks: []facts.Disk{disk("sda", "A", 40), disk("sdb", "B", 100)}, want: "/dev/sdb"},
		"larger slots":                          {rule: order.Disk{SlotBytes: 30 * gib}, disks: []facts.Disk{disk("sda", "A", 40), disk("sdb", "B", 100)}, want: "/dev/sdb"},
		"by serial number":                      {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"another one":                           {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{disk("sda", "A", 10), disk("sdb", "B", 100)}, want: "another one than A"},
		"no such serial number":                 {rule: order.Disk{Serial: "X"}, disks: []facts.Disk{disk("sda", "A", 100)}, want: "that the machine does not have: X (each disk is another one than X); it has /dev/sda"},
		"no such data disk":                     {data: []string{"B", "X", "Y"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40)}, want: "does not have: X, Y"},
		"no such disk to wipe":                  {rule: order.Disk{Consent: []string{"X"}}, disks: []facts.Disk{disk("sda", "A", 100)}, want: "does not have: X"},
		"by WWID":                               {rule: order.Disk{Serial: "0x5002538E40A0F2B1"}, disks: []facts.Disk{wide("sda", "A", "naa.5002538e40a0f2b1"), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"two namespaces of a drive":             {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{wide("sda", "A", "eui.01"), wide("sdb", "A", "eui.02")}, want: "name one by its WWID"},
		"one of two namespaces":                 {rule: order.Disk{Serial: "eui.02"}, disks: []facts.Disk{wide("sda", "A", "eui.01"), wide("sdb", "A", "eui.02")}, want: "/dev/sdb"},
		"consent for two of a serial number":    {rule: order.Disk{Consent: []string{"A"}}, disks: []facts.Disk{wide("sda", "A", "eui.01", "xfs"), wide("sdb", "A", "eui.02", "zfs")}, want: "2 disks have the serial number A: name this one by its WWID"},
		"consent by WWID":                       {rule: order.Disk{Consent: []string{"eui.02"}}, disks: []facts.Disk{wide("sda", "A", "eui.01", "xfs"), wide("sdb", "A", "eui.02", "zfs")}, want: "/dev/sdb"},
		"data disks of a serial number":         {data: []string{"A"}, disks: []facts.Disk{wide("sda", "A", "eui.01"), wide("sdb", "A", "eui.02"), disk("sdc", "C", 500)}, want: "/dev/sdc"},
		"a data disk of another machine":        {elsewhere: []string{"B", "Z"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"something unknown":                     {disks: []facts.Disk{disk("sda", "A", 40, "something unknown"), disk("sdb", "B", 100)}, want: "/dev/sdb"},
		"an unfinished installation":            {ours: "A", disks: []facts.Disk{disk("sda", "A", 100, "an unfinished installation"), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"the smallest has 4Kn sectors":          {disks: []facts.Disk{disk("sda", "A", 100), odd(func(d *facts.Disk) { d.SectorBytes = 4096 })}, want: "/dev/sda"},
		"only 4Kn":                              {disks: []facts.Disk{odd(func(d *facts.Disk) { d.SectorBytes = 4096 })}, want: "has sectors of 4096 bytes"},
		"4Kn by its name":                       {rule: order.Disk{Serial: "O"}, disks: []facts.Disk{odd(func(d *facts.Disk) { d.SectorBytes = 4096 })}, want: "has sectors of 4096 bytes"},
		"the smallest is read-only":             {disks: []facts.Disk{disk("sda", "A", 100), odd(func(d *facts.Disk) { d.ReadOnly = true })}, want: "/dev/sda"},
		"the smallest is zoned":                 {disks: []facts.Disk{disk("sda", "A", 100), odd(func(d *facts.Disk) { d.Zoned = "host-managed" })}, want: "/dev/sda"},
		"persistent memory":                     {disks: []facts.Disk{disk("sda", "A", 100), odd(func(d *facts.Disk) { d.Type = facts.DiskPmem })}, want: "/dev/sda"},
		"several paths":                         {disks: []facts.Disk{disk("sda", "A", 100), odd(func(d *facts.Disk) { d.Paths = []string{"/dev/sdy"} })}, want: "/dev/sda"},
		"several paths, by its name":            {rule: order.Disk{Serial: "O"}, disks: []facts.Disk{odd(func(d *facts.Disk) { d.Paths = []string{"/dev/sdy"} })}, want: "is reached by 2 paths"},
		"unreadable":                            {rule: order.Disk{Consent: []string{"O"}}, disks: []facts.Disk{odd(func(d *facts.Disk) { d.Unreadable = "input/output error" })}, want: "can't be read: input/output error"},
		"two of a serial number":                {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "A", 100)}, want: "2 disks have the serial"},
		"a data disk":                           {data: []string{"B"}, disks: []facts.Disk{disk("sda", "A", 100), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"a data disk, though consented":         {rule: order.Disk{Consent: []string{"A"}}, data: []string{"A"}, disks: []facts.Disk{disk("sda", "A", 100)}, want: "is a data disk"},
		"a foreign file system":                 {disks: []facts.Disk{disk("sda", "A", 40, "xfs"), disk("sdb", "B", 100)}, want: "/dev/sdb"},
		"only foreign ones":                     {disks: []facts.Disk{disk("sda", "A", 40, "gpt", "xfs")}, want: "holds gpt, xfs, which is not ours"},
		"foreign, named by its serial number":   {rule: order.Disk{Serial: "A"}, disks: []facts.Disk{disk("sda", "A", 40, "ceph")}, want: "holds ceph"},
		"consented":                             {rule: order.Disk{Consent: []string{"A"}}, disks: []facts.Disk{disk("sda", "A", 40, "xfs")}, want: "/dev/sda"},
		"consent needs a serial number":         {rule: order.Disk{Consent: []string{""}}, disks: []facts.Disk{disk("sda", "", 40, "xfs")}, want: "holds xfs"},
		"consent for another one":               {rule: order.Disk{Consent: []string{"B"}}, disks: []facts.Disk{disk("sda", "A", 40, "xfs")}, want: "holds xfs"},
		"ours before a smaller one":             {ours: "A", disks: []facts.Disk{disk("sda", "A", 100, "gpt", "ext"), disk("sdb", "B", 40)}, want: "/dev/sda"},
		"ours, but a data disk now":             {ours: "A", data: []string{"A"}, disks: []facts.Disk{disk("sda", "A", 100, "gpt"), disk("sdb", "B", 40)}, want: "/dev/sdb"},
		"own and another machine's smaller one": {owners: map[string]Owner{"A": "m", "B": "n"}, disks: []facts.Disk{disk("sda", "A", 480, "naupegos"), disk("sdb", "B", 240, "naupegos")}, want: "/dev/sda"},
		"another machine's alone":               {owners: map[string]Owner{"B": "n"}, disks: []facts.Disk{disk("sdb", "B", 240, "gpt", "naupegos")}, want: "holds the system of machine n"},
		"another machine's, and an empty one":   {owners: map[string]Owner{"B": "n"}, disks: []facts.Disk{disk("sda", "A", 480), disk("sdb", "B", 240, "gpt", "naupegos")}, want: "/dev/sda"},
		"another machine's by name":             {rule: order.Disk{Serial: "B"}, owners: map[string]Owner{"B": "n"}, disks: []facts.Disk{disk("sdb", "B", 240, "naupegos")}, want: "holds the system of machine n"},
		"another machine's with consent":        {rule: order.Disk{Consent: []string{"B"}}, owners: map[string]Owner{"B": "n"}, disks: []facts.Disk{disk("sdb", "B", 240, "naupegos")}, want: "/dev/sdb"},
		"two of this machine":                   {owners: map[string]Owner{"A": "m", "B": "m"}, disks: []facts.Disk{disk("sda", "A", 480, "naupegos"), disk("sdb", "B", 240, "naupegos")}, want: "2 disks hold a system of Naupegos that may be this machine's"},
		"two of this machine, one named":        {rule: order.Disk{Serial: "A"}, owners: map[string]Owner{"A": "m", "B": "m"}, disks: []facts.Disk{disk("sda", "A", 480, "naupegos"), disk("sdb", "B", 240, "naupegos")}, want: "/dev/sda"},
		"two that do not say whose":             {owners: map[string]Owner{"A": Unknown, "B": Unknown}, disks: []facts.Disk{disk("sda", "A", 480, "naupegos"), disk("sdb", "B", 240, "naupegos")}, want: "2 disks hold a system of Naupegos"},
		"own, and one that does not say whose":  {owners: map[string]Owner{"A": "m", "B": Unknown}, disks: []facts.Disk{disk("sda", "A", 480, "naupegos"), disk("sdb", "B", 240, "naupegos")}, want: "/dev/sda"},
		"a LUN on Fibre Channel":                {disks: []facts.Disk{disk("sda", "A", 100), odd(func(d *facts.Disk) { d.Type = facts.DiskFC })}, want: "/dev/sda"},
		"only a LUN of iSCSI":                   {disks: []facts.Disk{odd(func(d *facts.Disk) { d.Type = facts.DiskISCSI })}, want: "is on a network (iscsi)"},
		"a LUN by its name":                     {rule: order.Disk{Serial: "O"}, disks: []facts.Disk{odd(func(d *facts.Disk) { d.Type = facts.DiskNVMeoF })}, want: "/dev/sdx"},
		"what can be taken out":                 {disks: []facts.Disk{usb}, want: "can be taken out"},
		"a stick beside a larger disk":          {disks: []facts.Disk{odd(func(d *facts.Disk) { d.Type = facts.DiskUSB }), disk("sda", "A", 480)}, want: "/dev/sda"},
		"a stick alone":                         {disks: []facts.Disk{odd(func(d *facts.Disk) { d.Type = facts.DiskUSB })}, want: "is on USB"},
		"a stick by its name":                   {rule: order.Disk{Serial: "O"}, disks: []facts.Disk{odd(func(d *facts.Disk) { d.Type = facts.DiskUSB })}, want: "/dev/sdx"},
		"what can be taken out, by its name":    {rule: order.Disk{Serial: "U"}, disks: []facts.Disk{usb}, want: "/dev/sdz"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &order.Order{UUID: "m", Disk: c.rule, Data: c.data, Elsewhere: c.elsewhere}
			d, err := Choose(o, c.disks, func(d facts.Disk) Owner {
				if c.ours != "" && d.Serial == c.ours {
					return Unknown
				}
				return c.owners[d.Serial]
			})
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
