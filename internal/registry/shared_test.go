package registry_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSharedCards: a BMC's card that each server of a kind has, in the reports of the agent and of the older system, does not prevent the discovery
// of any machine, and identifies only the first.
func TestSharedCards(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
	for n := 1; n <= 3; n++ {
		s := newSimulated(t, n, n%2 == 1)
		s.Interfaces = append(s.Interfaces, facts.Interface{Name: "enx0", MAC: "be:3a:f2:b6:05:9f", Bus: "usb", Permanent: "be:3a:f2:b6:05:9f"}, facts.Interface{Name: "eth9", MAC: "be:3a:f2:b6:05:a0"},
			facts.Interface{Name: "ib0", MAC: "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:96:79:31"})
		testkit.Value(s.send(t, r))(t)
		testkit.Value(s.send(t, r))(t) // again: it keeps its address
		m := testkit.Value(r.Machine(ctx, s.Boot.UUID))(t)
		if want := map[int]int{1: 2}[n]; len(m.MACs) != max(1, want) {
			t.Errorf("machine %d is known by %v", n, m.MACs)
		}
		last := m.Facts.Interfaces[len(m.Facts.Interfaces)-2]
		if n > 1 && !strings.Contains(last.Ignored, uuidOf(1)) {
			t.Errorf("%+v", last)
		}
	}
	_, err := r.Machine(ctx, "be:3a:f2:b6:05:9f")
	testkit.Fails(t, err, fail.NotFound)
}

// TestOrderNamesDisks: an order that names a disk which the machine does not have is refused before it takes effect.
func TestOrderNamesDisks(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
	s := newSimulated(t, 1, true)
	s.Disks = []facts.Disk{{Path: "/dev/sda", SizeBytes: 1 << 40, Serial: "S1YJNX0H502216", WWID: "naa.5002538e40a0f2b1"}, {Path: "/dev/sdb", SizeBytes: 1 << 40, Serial: "ZA1B", Holds: []string{"zfs"}}}
	testkit.Value(s.send(t, r))(t)
	sum := strings.Repeat("a", 64)
	blob := order.Blob{Path: "/assets/systems/a", SHA256: sum, RawSHA256: sum, Size: 1, RawSize: 1}
	made := func(change func(*order.Order)) *order.Order {
		o := &order.Order{Schema: order.Schema, UUID: uuidOf(1), Hostname: "a", System: order.System{ID: "sha256:" + sum, Kubernetes: "v1.37.2", Root: blob, Head: blob}}
		change(o)
		return o
	}
	for missing, change := range map[string]func(*order.Order){
		"X1": func(o *order.Order) { o.Disk.Serial = "X1" }, "X2": func(o *order.Order) { o.Data = []string{"ZA1B", "X2"} }, "X3": func(o *order.Order) { o.Disk.Consent = []string{"X3"} },
		"/dev/sda": func(o *order.Order) { o.Disk.Serial = "/dev/sda" },
	} {
		_, err := r.SetOrder(ctx, uuidOf(1), made(change), "ann")
		testkit.Fails(t, err, fail.Invalid, missing, "S1YJNX0H502216", "naa.5002538e40a0f2b1", "holds zfs")
		if m := testkit.Value(r.Machine(ctx, uuidOf(1)))(t); m.Record.Order != nil {
			t.Fatal("the order was taken")
		}
	}
	good := made(func(o *order.Order) {
		o.Disk.Serial, o.Data, o.Elsewhere = "0x5002538e40a0f2b1", []string{"za1b"}, []string{"of another machine"}
	})
	testkit.Value(r.SetOrder(ctx, uuidOf(1), good, "ann"))(t)
	s.Disks = s.Disks[:1] // the data disk is removed
	testkit.Value(r.Approve(ctx, uuidOf(1), facts.Fingerprint(s.key.Public()), "ann"))(t)
	testkit.Value(s.send(t, r))(t)
	testkit.Value(r.SetOrder(ctx, uuidOf(1), made(func(o *order.Order) { *o = *good; o.Hostname = "b" }), "ann"))(t) // names from the previous order are accepted
	s.Disks = nil
	testkit.Value(s.send(t, r))(t)
	testkit.Value(r.SetOrder(ctx, uuidOf(1), made(func(o *order.Order) { o.Disk.Serial = "X1" }), "ann"))(t) // the machine reports no disks
}

// TestOrderFitsDisks: an order that no disk can serve is refused when it is given, not after three boots.
func TestOrderFitsDisks(t *testing.T) {
	sum := strings.Repeat("a", 64)
	blob := order.Blob{Path: "/assets/systems/a", SHA256: sum, RawSHA256: sum, Size: 1, RawSize: 1}
	disk := func(serial string, gib int64, change func(*facts.Disk)) facts.Disk {
		d := facts.Disk{Path: "/dev/" + strings.ToLower(serial), SizeBytes: gib << 30, Serial: serial}
		if change != nil {
			change(&d)
		}
		return d
	}
	twin := func(wwid string) func(*facts.Disk) { return func(d *facts.Disk) { d.WWID = wwid } }
	big := disk("B", 1000, nil)
	for name, c := range map[string]struct {
		disks   []facts.Disk
		rule    order.Disk
		refused string
	}{
		"4Kn by name":             {[]facts.Disk{big, disk("A", 400, func(d *facts.Disk) { d.SectorBytes = 4096 })}, order.Disk{Serial: "A"}, "has sectors of 4096 bytes"},
		"read-only by name":       {[]facts.Disk{big, disk("A", 400, func(d *facts.Disk) { d.ReadOnly = true })}, order.Disk{Serial: "A"}, "is read-only"},
		"small by name":           {[]facts.Disk{big, disk("A", 8, nil)}, order.Disk{Serial: "A"}, "has 8192 MiB, and more than 16384 are needed"},
		"two namespaces":          {[]facts.Disk{disk("A", 400, twin("eui.01")), disk("A", 400, twin("eui.02"))}, order.Disk{Serial: "A"}, "2 disks have the serial number A"},
		"one namespace":           {[]facts.Disk{disk("A", 400, twin("eui.01")), disk("A", 400, twin("eui.02"))}, order.Disk{Serial: "eui.02"}, ""},
		"consent to two":          {[]facts.Disk{big, disk("A", 400, twin("eui.01")), disk("A", 400, twin("eui.02"))}, order.Disk{Consent: []string{"A"}}, "2 disks have the serial number A"},
		"none fits":               {[]facts.Disk{disk("A", 8, nil), disk("U", 400, func(d *facts.Disk) { d.Removable = true })}, order.Disk{}, "can be taken out"},
		"the removable one named": {[]facts.Disk{disk("U", 400, func(d *facts.Disk) { d.Removable = true })}, order.Disk{Serial: "U"}, ""},
		"content is no matter":    {[]facts.Disk{disk("A", 400, func(d *facts.Disk) { d.Holds = []string{"xfs"} })}, order.Disk{}, ""},
		"no disk is reported":     {[]facts.Disk{}, order.Disk{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
			s := newSimulated(t, 1, true)
			s.Disks = c.disks
			testkit.Value(s.send(t, r))(t)
			o := &order.Order{Schema: order.Schema, UUID: uuidOf(1), Hostname: "a", System: order.System{ID: "sha256:" + sum, Kubernetes: "v1.37.2", Root: blob, Head: blob}, Disk: c.rule}
			_, err := r.SetOrder(ctx, uuidOf(1), o, "ann")
			if c.refused == "" {
				testkit.Must(t, err)
				return
			}
			testkit.Fails(t, err, fail.Invalid, c.refused)
		})
	}
}

// TestConsentEnds: consent to overwrite a disk covers the content at that time. It ends with the installation, does not change the order's digest, and
// must be renewed for a reinstallation.
func TestConsentEnds(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}, InstallRetries: 2}), t.Context()
	s := newSimulated(t, 1, true)
	s.Disks = []facts.Disk{{Path: "/dev/sda", SizeBytes: 1 << 40, Serial: "S0"}, {Path: "/dev/sdb", SizeBytes: 1 << 40, Serial: "S1", Holds: []string{"zfs"}}}
	testkit.Value(s.send(t, r))(t)
	testkit.Value(r.Approve(ctx, uuidOf(1), facts.Fingerprint(s.key.Public()), "ann"))(t)
	testkit.Value(s.send(t, r))(t)
	sum := strings.Repeat("a", 64)
	blob := order.Blob{Path: "/assets/systems/a", SHA256: sum, RawSHA256: sum, Size: 1, RawSize: 1}
	ordered := order.Order{Schema: order.Schema, UUID: uuidOf(1), Hostname: "a", System: order.System{ID: "sha256:" + sum, Kubernetes: "v1.37.2", Root: blob, Head: blob}, Disk: order.Disk{Consent: []string{"S1"}}}
	now := func() *registry.Machine { return testkit.Value(r.Machine(ctx, uuidOf(1)))(t) }
	consents := func(when string, want ...string) {
		t.Helper()
		if got := testkit.Value(r.Ordered(now()))(t).Disk.Consent; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: consent to %q, want %q", when, got, want)
		}
		if m := now(); m.Record.Wanted != ordered.Digest() {
			t.Errorf("%s: the machine should report %s", when, m.Record.Wanted)
		}
	}
	testkit.Value(r.SetOrder(ctx, uuidOf(1), &ordered, "ann"))(t)
	testkit.Value(r.Authorize(ctx, now()))(t)
	testkit.Must(t, r.Finish(ctx, now(), false, nil))
	consents("after a failure", "S1")
	testkit.Value(r.Authorize(ctx, now()))(t)
	testkit.Must(t, r.Finish(ctx, now(), true, nil))
	consents("after the installation")
	testkit.Value(r.Reinstall(ctx, uuidOf(1), nil, "ann"))(t)
	consents("to be installed again")
	testkit.Value(r.Reinstall(ctx, uuidOf(1), []string{"S1"}, "ann"))(t)
	consents("with new consent", "S1")
	testkit.Value(r.Report(ctx, now(), "boot-1", ordered.Digest(), 0))(t)
	consents("to be installed again, and still running", "S1")
	testkit.Must(t, r.Finish(ctx, now(), true, nil))
	consents("after the second installation")
	testkit.Value(r.SetOrder(ctx, uuidOf(1), &ordered, "ann"))(t)
	consents("ordered again", "S1")
	testkit.Value(r.Report(ctx, now(), "boot-1", ordered.Digest(), 0))(t)
	consents("the running machine has what is ordered")
	_, err := r.Reinstall(ctx, uuidOf(1), []string{"S7"}, "ann")
	testkit.Fails(t, err, fail.Invalid, "S7", "S1")
}
