//go:build e2e

package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/rack"
)

// sharedMAC is the MAC address of a card that the BMCs of all servers of a kind show.
const sharedMAC = "be:3a:f2:b6:05:9f"

// dataDisk is the size of the data disks. They are smaller than the system's, so that an installation would choose a free one.
const dataDisk = 10 << 30

// TestMetalHardware boots and installs machines with unusual hardware: an NVMe disk behind two ports, virtio-scsi disks with serial numbers, one of
// them with sectors of 4096 bytes, cards with an address that another machine has, too, and 257 cards. Of two data disks, one of ZFS and one of a RAID
// with its superblock at the end, not a byte may change.
func TestMetalHardware(t *testing.T) {
	testkit.OnlyFull(t, "TestMetal installs machines, too, and TestKindsOfDisks and TestKindsOfMachines show disks of more kinds")
	if os.Getenv(systemsEnv) == "" {
		dir := filepath.Join(built.dir, "systems")
		buildSystem(t, image.Options{Virtual: true}, filepath.Join(dir, "bare"))
		t.Setenv(systemsEnv, dir)
	}
	if !inRack(t) {
		return
	}
	began := time.Now()
	lap := func(what string) { t.Logf("%s after %v", what, time.Since(began).Round(time.Second)) }
	p := newProvisioning(t)
	p.offers("bare")
	zfs, raid, empty := p.image("zfs", writeZFS), p.image("raid", writeRAID), p.image("4k", func(*testing.T, *os.File) {})
	before := map[string]string{}
	for _, file := range []string{zfs, raid, empty} {
		before[file] = digest(t, file)
	}
	// With UEFI: with BIOS, ports hung in the firmware after its installation, for an unknown reason.
	ports := p.add(rack.Spec{Name: "ports", UEFI: true, MemoryMiB: 1024, Odd: rack.Odd{TwoPorts: true, SharedMAC: sharedMAC,
		Disks: []rack.Disk{{File: zfs, Serial: "DATA-ZFS"}, {File: raid, Serial: "DATA-RAID"}, {File: empty, Serial: "EMPTY-4K", SectorBytes: 4096}}}})
	twin := p.add(rack.Spec{Name: "twin", MemoryMiB: 768, Odd: rack.Odd{SharedMAC: sharedMAC}})
	many := p.add(rack.Spec{Name: "many", MemoryMiB: 768, Odd: rack.Odd{Cards: 256}})
	p.employed(ports, twin, many)
	lap("all are known and approved")

	said := func(m *rack.Machine) *facts.Discovery {
		d := testkit.Value(p.show(m.Name))(t)
		if d.Facts == nil || d.UUID != m.UUID {
			t.Fatalf("%s says %+v", m.Name, d.Facts)
		}
		return d.Facts
	}
	t.Run("disks", func(t *testing.T) {
		var got []string
		for _, d := range said(ports).Disks {
			got = append(got, fmt.Sprint(d.Serial, " ", d.Type, " ", d.SizeBytes>>30, " ", d.SectorBytes, " ", d.Holds, d.Paths, d.Unreadable))
		}
		slices.Sort(got)
		want := []string{"DATA-RAID scsi 10 0 [raid][]", "DATA-ZFS scsi 10 0 [zfs][]", "DISK-ports nvme 12 0 [][]", "EMPTY-4K scsi 10 4096 [][]"}
		if !slices.Equal(got, want) {
			t.Errorf("it has %q", got)
		}
	})
	t.Run("a shared address", func(t *testing.T) {
		var ignored []string
		for m, other := range map[*rack.Machine]*rack.Machine{ports: twin, twin: ports} {
			i := slices.IndexFunc(said(m).Interfaces, func(i facts.Interface) bool { return i.MAC == sharedMAC && i.Bus != "usb" })
			if i < 0 {
				t.Fatalf("%s does not report the card: %+v", m.Name, said(m).Interfaces)
			}
			if why := said(m).Interfaces[i].Ignored; why != "" {
				ignored = append(ignored, why)
				if !strings.Contains(why, other.UUID) {
					t.Errorf("%s: %s", m.Name, why)
				}
			}
		}
		if len(ignored) == 0 {
			t.Error("the address identifies two machines")
		}
	})
	t.Run("257 cards", func(t *testing.T) {
		if n := len(said(many).Interfaces); n != 257 {
			t.Errorf("it reports %d cards", n)
		}
	})

	for _, args := range [][]string{{"--disk", "NONE-SUCH"}, {"--data", "NONE-SUCH"}, {"--wipe", "NONE-SUCH"}} {
		r := naupegos(t, p.asking(), append([]string{"machine", "install", ports.Name, "--kubernetes", goodSystem}, args...)...)
		if r.code == 0 || !strings.Contains(r.stderr, "NONE-SUCH") || !strings.Contains(r.stderr, "DATA-ZFS") {
			t.Errorf("%s: %v", args, r)
		}
	}
	t.Run("a used disk by its name", func(t *testing.T) {
		p.run("machine", "install", ports.Name, "--slot-size", "3", "--kubernetes", goodSystem, "--disk", "DATA-RAID")
		until(t, 15*time.Minute*slower, 2*time.Second, func() error {
			d, err := p.show(ports.Name)
			if err == nil && d.Failures == 0 {
				err = errors.New(d.State + ": " + saysProgress(d))
			}
			return err
		})
		p.run("machine", "install", ports.Name, "--none")
		if journal := p.run("machine", "journal", ports.Name, "--install"); !strings.Contains(journal, "holds raid, which is not ours") {
			t.Error(journal)
		}
		p.same(before)
	})
	lap("the RAID's disk is refused")
	p.run("machine", "install", ports.Name, "--slot-size", "3", "--kubernetes", goodSystem)
	p.run("machine", "reinstall", ports.Name, "--yes") // it still runs the discovery image, and asks again
	p.runs(ports, "a")
	lap("the system runs from the NVMe disk")
	if !hasPartition(t, filepath.Join(p.dir, ports.Name, "disk"), slots.NameState) {
		t.Error("the NVMe disk has no partition " + slots.NameState)
	}
	p.run("machine", "power", ports.Name, "off", "--yes")
	p.same(before)
}

// image makes a sparse file for a disk.
func (p *provisioning) image(name string, fill func(*testing.T, *os.File)) string {
	p.t.Helper()
	f := testkit.Value(os.Create(filepath.Join(p.dir, name+".disk")))(p.t)
	testkit.Must(p.t, f.Truncate(dataDisk))
	fill(p.t, f)
	testkit.Must(p.t, f.Close())
	return f.Name()
}

// same fails if the content of a file has changed.
func (p *provisioning) same(before map[string]string) {
	p.t.Helper()
	for file, was := range before {
		if digest(p.t, file) != was {
			p.t.Errorf("%s has changed", filepath.Base(file))
		}
	}
}

// writeZFS writes what zpool create writes to a whole disk, and data.
func writeZFS(t *testing.T, f *os.File) {
	for _, label := range []int64{0, 256 << 10, dataDisk - 512<<10, dataDisk - 256<<10} {
		for i := range int64(128) {
			put(t, f, label+128<<10+i<<10, 0x00bab10c, 5000, uint64(1000+i), 1, 1_700_000_000)
		}
	}
	put(t, f, dataDisk/2, 0x6461746120312121)
}

// writeRAID writes a member of a RAID with metadata 1.0, which has its superblock at the end, and data.
func writeRAID(t *testing.T, f *os.File) {
	put(t, f, dataDisk-8192, 1<<32|0xa92b4efc)
	put(t, f, dataDisk/3/512*512, 0x6461746120322121)
}

// put writes words in little-endian order.
func put(t *testing.T, f *os.File, at int64, words ...uint64) {
	t.Helper()
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	testkit.Value(f.WriteAt(b, at))(t)
}

// digest returns a digest of a sparse file's non-zero blocks and their offsets.
func digest(t *testing.T, file string) string {
	t.Helper()
	f := testkit.Value(os.Open(file))(t)
	defer f.Close()
	h, block, zeros := sha256.New(), make([]byte, 4096), make([]byte, 4096)
	for at := int64(0); at < dataDisk; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		testkit.Must(t, err)
		to := testkit.Value(unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE))(t)
		for at = from; at < to; at += int64(len(block)) {
			testkit.Value(f.ReadAt(block, at))(t)
			if !bytes.Equal(block, zeros) {
				fmt.Fprintf(h, "%d:%s", at, block)
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// hasPartition reports whether a disk's GPT has a partition of this name.
func hasPartition(t *testing.T, disk, name string) bool {
	t.Helper()
	f := testkit.Value(os.Open(disk))(t)
	defer f.Close()
	table := make([]byte, 34*512)
	testkit.Value(f.ReadAt(table, 0))(t)
	var b []byte
	for _, u := range utf16.Encode([]rune(name)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return bytes.Contains(table, b)
}
