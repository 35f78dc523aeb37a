//go:build integration

package install

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"strings"
)

// parts writes data at offsets; negative ones count from the end.
func parts(pairs ...any) func(*sparseDisk) {
	return func(d *sparseDisk) {
		for i := 0; i < len(pairs); i += 2 {
			d.put(int64(pairs[i].(int)), pairs[i+1].(string))
		}
	}
}

var (
	little = binary.LittleEndian
	big    = binary.BigEndian
)

// noise resembles encrypted data.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b) // never fails
	return string(b)
}

// record is a structure of n bytes whose fields set writes.
func record(n int, set func(b []byte)) string {
	b := make([]byte, n)
	set(b)
	return string(b)
}

// sum32 adds the little-endian words of a structure.
func sum32(b []byte) (sum uint64) {
	for ; len(b) >= 4; b = b[4:] {
		sum += uint64(little.Uint32(b))
	}
	return sum
}

func sum16(b []byte) (sum uint16) {
	for ; len(b) >= 2; b = b[2:] {
		sum += little.Uint16(b)
	}
	return sum
}

// crc32c is the checksum of Stratis and mpool.
func crc32c(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// md1 is a superblock of Linux' RAID with metadata 1.x, for a member whose superblock is at an offset.
func md1(at, size int64) string {
	return record(4096, func(b []byte) {
		little.PutUint32(b, 0xa92b4efc)
		little.PutUint32(b[4:], 1)
		copy(b[16:], noise(16))
		copy(b[32:], "host:data")
		little.PutUint32(b[72:], 5) // the level
		little.PutUint64(b[80:], uint64(size-8<<20)/512)
		little.PutUint32(b[88:], 128)
		little.PutUint32(b[92:], 3)
		if at < 1<<20 {
			little.PutUint64(b[128:], 8192) // where the data begins
		}
		little.PutUint64(b[136:], uint64(size-8<<20)/512)
		little.PutUint64(b[144:], uint64(at)/512)
		copy(b[168:], noise(16))
		little.PutUint32(b[220:], 3) // the number of roles
		little.PutUint16(b[258:], 1)
		little.PutUint16(b[260:], 2)
		sum := sum32(b[:256+8])
		little.PutUint32(b[216:], uint32(sum)+uint32(sum>>32))
	})
}

// md0 is the superblock with metadata 0.90.
var md0 = record(4096, func(b []byte) {
	for i, v := range []uint32{0xa92b4efc, 0, 90, 0, 0, 0x12345678, 1_700_000_000, 1, 50_000, 2, 2} {
		little.PutUint32(b[4*i:], v)
	}
	sum := sum32(b)
	little.PutUint32(b[38*4:], uint32(sum)+uint32(sum>>32))
})

// imsm is the metadata of Intel's RAID, for a container of one disk.
func imsm(d *sparseDisk) {
	d.put(-1024, record(512, func(b []byte) {
		copy(b, "Intel Raid ISM Cfg Sig. 1.1.00")
		little.PutUint32(b[36:], 216+48) // its size
		little.PutUint32(b[40:], 0x5eed)
		little.PutUint32(b[44:], 1)
		b[56] = 1 // disks
		copy(b[216:], "KIND-1")
		little.PutUint32(b[232:], uint32(d.size/512))
		little.PutUint32(b[240:], 0x13a)
		little.PutUint32(b[32:], uint32(sum32(b[:216+48])))
	}))
	d.put(0, noise(1<<20))
}

// ddf is the anchor of SNIA's format, as PERC and MegaRAID write it, and the primary header that it names.
func ddf(d *sparseDisk) {
	header := record(512, func(b []byte) {
		for i := range b {
			b[i] = 0xff
		}
		big.PutUint32(b, 0xde11de11)
		copy(b[8:], "DELL    \x10\x00\x10\x00\x10\x00\x10\x00\x10\x00\x10\x00\x10\x00\x10\x0001.02.00")
		big.PutUint64(b[96:], uint64(d.size/512-65536))
		big.PutUint32(b[4:], crc32.ChecksumIEEE(b))
	})
	d.put((d.size/512-65536)*512, header)
	d.put(-512, header)
	d.put(0, noise(1<<20))
}

// zfs writes a device as zpool create does: four labels, each with a ring of uberblocks.
func zfs(d *sparseDisk) {
	aligned := d.size / (256 << 10) * (256 << 10)
	for _, label := range []int64{0, 256 << 10, aligned - 512<<10, aligned - 256<<10} {
		for i := range int64(128) {
			d.put(label+128<<10+i<<10, record(40, func(b []byte) {
				for n, v := range []uint64{0x00bab10c, 5000, uint64(1000 + i), 1, 1_700_000_000} {
					little.PutUint64(b[8*n:], v)
				}
			}))
		}
	}
}

// writtenKinds have superblocks that no program in Debian 12 writes without a kernel module or other hardware.
var writtenKinds = []diskKind{
	// RAID of Linux. mdadm has to recognize it.
	{name: "RAID, metadata 0.90", written: func(d *sparseDisk) { d.put(d.size/(64<<10)*(64<<10)-64<<10, md0) }, reads: `mdadm --examine "$image" => Version : 0.90`},
	{name: "RAID, metadata 1.0", written: func(d *sparseDisk) {
		at := (d.size/512 - 16) / 8 * 8 * 512
		d.put(at, md1(at, d.size))
	}, reads: `mdadm --examine "$image" => Raid Level : raid5`},
	{name: "RAID, metadata 1.1", written: func(d *sparseDisk) { d.put(0, md1(0, d.size)) }, reads: `mdadm --examine "$image" => Raid Level : raid5`},
	{name: "RAID, metadata 1.2", written: func(d *sparseDisk) { d.put(4096, md1(4096, d.size)) }, reads: `mdadm --examine "$image" => Raid Level : raid5`},

	// RAID of controllers and firmware.
	{name: "Intel's RAID (IMSM)", written: imsm, wants: "isw_raid_member", reads: `IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1 mdadm --examine "$device" => Intel Raid ISM Cfg Sig.`},
	{name: "DDF", written: ddf, wants: "ddf_raid_member"},
	{name: "LSI MegaRAID", written: parts(-512, "$XIDE$")},
	{name: "Nvidia's RAID", written: parts(-1024, record(120, func(b []byte) {
		copy(b, "NVIDIA  ")
		little.PutUint32(b[8:], 30)
		little.PutUint16(b[16:], 100)
		little.PutUint32(b[12:], -uint32(sum32(b)))
	}))},
	{name: "Silicon Image Medley", written: parts(-512, record(512, func(b []byte) {
		little.PutUint32(b[0x60:], 0x2f000000)
		b[0x10a] = 2
		little.PutUint16(b[0x13e:], -sum16(b[:0x13e]))
	}))},
	{name: "Adaptec HostRAID", written: parts(-512, record(512, func(b []byte) {
		copy(b, "\x37\xfc\x4d\x1e")
		copy(b[256:], "DPTM")
	}))},
	{name: "JMicron", written: parts(-512, record(128, func(b []byte) {
		copy(b, "JM\x01\x00")
		little.PutUint16(b[4:], -sum16(b))
	}))},
	{name: "VIA", written: parts(-512, record(51, func(b []byte) {
		copy(b, "\x55\xaa\x01\x07")
		for _, v := range b[:50] {
			b[50] += v
		}
	}))},
	{name: "HighPoint 37x", written: parts(9*512+32, "\xf0\x16\x78\x5a")},
	{name: "HighPoint 45x", written: parts(-11*512, "\xf3\x16\x78\x5a"), wants: "hpt45x_raid_member"},
	{name: "Promise FastTrak", written: parts(-255*512, "Promise Technology, Inc.")},

	// Pools, clusters, encryption.
	{name: "ZFS", written: zfs},
	{name: "Ceph BlueStore", written: parts(0, "bluestore block device\n8f6f2b7e-0f2f-4d6c-b1b0-0a6f6d9c4f10\n")},
	{name: "VDO", written: parts(0, "dmvdo001")},
	{name: "Stratis", written: parts(512, record(512, func(b []byte) {
		copy(b[4:], "!Stra0tis\x86\xff\x02^\x41rh")
		copy(b[32:], strings.Repeat("0123456789abcdef", 4))
		little.PutUint32(b, crc32c(b[4:]))
	}))},
	{name: "Oracle ASM", written: parts(32, "ORCLDISKDATA01")},
	{name: "mpool", written: parts(0, record(66, func(b []byte) {
		copy(b, "mpoolDevpool")
		little.PutUint32(b[62:], crc32c(b[:62]))
	}))},
	{name: "bcachefs", written: parts(4096+24, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"), wants: "bcachefs"},
	{name: "LVM1", written: parts(0, "HM\x01\x00")},
	{name: "a snapshot's store", written: parts(0, "SnAp\x01\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00")},
	{name: "dm-integrity", written: parts(0, "integrt\x00\x01\x0f")},
	{name: "BitLocker", written: parts(0, "\xeb\x52\x90-FVE-FS-")},
	{name: "BitLocker of Windows 7", written: parts(0, record(512, func(b []byte) {
		copy(b, "\xeb\x58\x90-FVE-FS-")
		little.PutUint64(b[176:], 1<<20)
	}), 1<<20, "-FVE-FS-")},
	{name: "Apple's Core Storage", written: parts(88, "CS\x01\x00"), wants: "core storage"},
	{name: "DRBD's control volume", written: parts(0, "$DRBDmgr=q\x00"+strings.Repeat("a", 32)+"\n")},
	{name: "DRBD Proxy's log", written: parts(0, "DRBDdlh*")},
	{name: "GEOM of FreeBSD", written: parts(-512, "GEOM::MIRROR\x00\x00\x00\x00"), wants: "geom"},
	{name: "GELI", written: parts(-512, "GEOM::ELI\x00\x00\x00\x00\x00\x00\x00", 0, noise(4<<20)), wants: "geom"},
	{name: "Windows' dynamic disk", written: parts(512*6, "PRIVHEAD"), wants: "ldm"},
	{name: "Windows' dynamic disk, its copy", written: parts(-1<<20, "TOCBLOCK", -512, "PRIVHEAD"), wants: "ldm"},
	{name: "VMFS volume", written: parts(1<<20, "\x0d\xd0\x01\xc0", 1<<20+512+20, "4f284517-fa9ee191-1fac-e0db551c78cb")},

	// File systems of other systems.
	{name: "VMFS", written: parts(2<<20, "\x5e\xf1\xab\x2f")},
	{name: "HFS+", written: parts(1024, record(512, func(b []byte) {
		copy(b, "H+\x00\x04")
		big.PutUint32(b[40:], 4096)
	}), -1024, "H+\x00\x04")},
	{name: "HPFS", written: parts(8192, "\x49\xe8\x95\xf9\xc5\xe9\x53\xfa\x02", 8704, "\x49\x18\x91\xf9\xc5\x29\x52\xfa")},
	{name: "ReFS", written: parts(0, "\x00\x00\x00ReFS\x00")},
	{name: "NetWare", written: parts(4096, "SPB5")},
	{name: "OCFS", written: parts(8192, "OracleCFS")},
	{name: "VxFS", written: parts(1024, "\xf5\xfc\x01\xa5\x06\x00\x00\x00")},
	{name: "VxFS of HP-UX", written: parts(8192, "\xa5\x01\xfc\xf5\x00\x00\x00\x06")},
	{name: "BeFS", written: parts(512, record(512, func(b []byte) {
		copy(b[32:], "1SFBEGIB")
		for at, v := range map[int]uint32{40: 1024, 44: 10, 68: 0xdd121031, 72: 0x2000, 76: 13, 80: 4, 84: 0x434c454e, 112: 0x15b6830e} {
			little.PutUint32(b[at:], v)
		}
	})), wants: "befs"},
	{name: "System V", written: parts(1016, "\x20\x7e\x18\xfd")},
	{name: "System V, big-endian, on a floppy's boundary", written: parts(9*1024+1016, "\xfd\x18\x7e\x20")},
	{name: "Xenix", written: parts(2048, "\x2b\x55\x44")},
	{name: "Xenix, as Linux reads it", written: parts(1024+1016, "\x44\x55\x2b\x00"), wants: "xenix"},
	{name: "QNX 4", written: parts(4, "QNX4FS"), wants: "qnx4"},
	{name: "Lustre", written: parts(4096+8, "Lustre"), wants: "lustre"},
	{name: "zonefs", written: parts(0, record(4096, func(b []byte) {
		copy(b, "SFOZ")
		little.PutUint32(b[4:], ^crc32.ChecksumIEEE(b))
	}))},
	{name: "swap of big-endian machines", written: parts(1024, record(12, func(b []byte) {
		big.PutUint32(b, 1)
		big.PutUint32(b[4:], 32767)
	}), 4086, "SWAPSPACE2")},
	{name: "a hibernated system", written: parts(4086, "S1SUSPEND")},
	{name: "a hibernated system, TuxOnIce", written: parts(0, "\xed\xc3\x02\xe9\x98\x56\xe5\x0c"), wants: "swap"},

	// Data without any structure that a program looks for.
	{name: "a database on the bare disk", written: parts(0, "PGDATA raw "+noise(1<<20))},
	{name: "VeraCrypt", written: parts(0, noise(128<<10), -(128 << 10), noise(128<<10))},
	{name: "dm-crypt without header", written: parts(0, noise(8<<20), -(8 << 20), noise(8<<20))},
	{name: "a member of a RAID 0", written: parts(64<<10, noise(64<<10), 192<<10, noise(64<<10))},
	{name: "data behind the first MiB", written: parts(1<<20, strings.Repeat("precious", 100))},
	{name: "data at the end", written: parts(-4096, "precious")},
	{name: "the last byte", written: parts(-1, "\x01")},
	{name: "a single byte", written: parts(3<<20, "\x01")},
	{name: "boot code without a table", written: parts(0, "\xfa\x33\xc0\x8e\xd0\xbc")},
	{name: "flash that was erased", size: 16 << 20, written: parts(0, strings.Repeat("\xff", 16<<20))},
	{name: "badblocks' pattern", size: 16 << 20, written: parts(0, strings.Repeat("\xaa", 16<<20))},
	{name: "zeros", written: parts()},
}
