package disks

import (
	"slices"
	"strings"
)

// signature is a kind of content with known bytes at known places.
type signature struct {
	name  string
	at    []int64 // offsets; negative ones count from the disk's end
	magic []string
}

// at lists offsets.
func at(offsets ...int64) []int64 { return offsets }

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
	tib = int64(1) << 40
)

// signatures are the kinds of content that util-linux' libblkid knows, and some more. They only provide names: a disk with other content is not empty
// either.
var signatures = []signature{
	// Partition tables.
	{"gpt", at(512, 4096, -512, -4096), []string{"EFI PART"}},
	{"apple partition map", at(512, 2048), []string{"PM\x00\x00"}},
	{"bsd disklabel", at(512, 64), []string{"\x57\x45\x56\x82", "\x82\x56\x45\x57"}},
	{"sun disklabel", at(508), []string{"\xda\xbe"}},
	{"sgi disklabel", at(0), []string{"\x0b\xe5\xa9\x41"}},
	{"ldm", at(3072, 3584, -512), []string{"PRIVHEAD"}},
	{"amiga disklabel", amiga(), []string{"RDSK"}},
	{"aix disklabel", at(0), []string{"\xc9\xc2\xd4\xc1"}},
	{"dasd", at(8, 4096+4), []string{"\xe5\xd6\xd3\xf1", "VOL1"}},

	// File systems.
	{"ext", extCopies(), []string{"\x53\xef"}},
	{"xfs", at(0, tib), []string{"XFSB"}},
	{"xfs_external_log", at(0, 512, 1024, 2048, 4096), []string{"\xfe\xed\xba\xbe"}},
	{"exfs", at(0), []string{"EXFS"}},
	{"btrfs", at(64*kib+64, 64*mib+64, 256*gib+64), []string{"_BHRfS_M"}},
	{"f2fs", at(1024, 4096+1024), []string{"\x10\x20\xf5\xf2"}},
	{"jfs", at(32*kib, 60*kib), []string{"JFS1"}},
	{"reiserfs", at(64*kib+52, 8*kib+52, 8*kib+20), []string{"ReIsEr"}},
	{"reiser4", at(64 * kib), []string{"ReIsEr4"}},
	{"nilfs2", at(1024 + 6), []string{"\x34\x34"}},
	{"gfs2", at(64 * kib), []string{"\x01\x16\x19\x70"}},
	{"ocfs2", at(1024, 2048, 4096, 8192, gib, 4*gib, 16*gib, 64*gib, 256*gib, tib), []string{"OCFSV2"}},
	{"ocfs", at(0, 8*kib), []string{"OracleCFS", "\x01\x00\x00\x00\x01\x00\x00\x00OracleCFS"}},
	{"lustre", at(4096+8, 64*kib+8), []string{"Lustre"}},
	{"erofs", at(1024), []string{"\xe2\xe1\xf5\xe0"}},
	{"squashfs", at(0), []string{"hsqs", "sqsh", "shsq", "qshs"}},
	{"cramfs", at(0), []string{"\x45\x3d\xcd\x28", "\x28\xcd\x3d\x45"}},
	{"romfs", at(0), []string{"-rom1fs-"}},
	{"minix", at(1024+16, 1024+24), []string{"\x7f\x13", "\x8f\x13", "\x68\x24", "\x78\x24", "\x5a\x4d", "\x13\x7f", "\x13\x8f", "\x24\x68", "\x24\x78"}},
	{"ubi", at(0), []string{"UBI#"}},
	{"ubifs", at(0), []string{"\x31\x18\x10\x06"}},
	{"jffs2", at(0), []string{"\x85\x19\x01\xe0", "\x85\x19\x02\xe0", "\x85\x19\x03\x20", "\x19\x85\xe0\x01", "\x19\x85\xe0\x02", "\x19\x85\x20\x03"}},
	{"zonefs", at(0), []string{"SFOZ"}},
	{"befs", at(32, 544), []string{"BFS1", "1SFB"}},
	{"bfs", at(0), []string{"\xce\xfa\xad\x1b"}},
	{"hpfs", at(8 * kib), []string{"\x49\xe8\x95\xf9"}},
	{"qnx4", at(4), []string{"QNX4FS"}},
	{"netware", at(4 * kib), []string{"SPB5"}},
	{"sysv", at(512+504, 1024+504, 1536+504, 4608+504, 9728+504, 15872+504, 18944+504), []string{"\x20\x7e\x18\xfd", "\xfd\x18\x7e\x20"}},
	{"xenix", at(1024+1016, 2048), []string{"\x44\x55\x2b\x00", "\x00\x2b\x55\x44", "\x2b\x55\x44", "\x44\x55\x2b"}},
	{"ufs", at(8*kib+1372, 64*kib+1372, 256*kib+1372), []string{"\x54\x19\x01\x00", "\x00\x01\x19\x54", "\x19\x01\x54\x19", "\x19\x54\x01\x19"}},
	{"vxfs", at(8*kib, kib), []string{"\xf5\xfc\x01\xa5", "\xa5\x01\xfc\xf5"}},
	{"hfsplus", at(1024, -1024), []string{"H+\x00", "HX\x00"}},
	{"hfs", at(1024, -1024), []string{"BD"}},
	{"apfs", at(32), []string{"NXSB"}},
	{"ntfs", at(3, -509), []string{"NTFS    "}},
	{"exfat", at(3, 12*512+3), []string{"EXFAT   "}},
	{"refs", at(0), []string{"\x00\x00\x00ReFS"}},
	{"bitlocker", at(3), []string{"-FVE-FS-"}},
	{"vfat", at(82, 54, 6*512+82), []string{"FAT32   ", "FAT16   ", "FAT12   ", "MSDOS"}},
	{"iso9660", at(32*kib + 1), []string{"CD001"}},
	{"highsierra", at(32*kib + 9), []string{"CDROM"}},
	{"udf", at(32*kib+1, 34*kib+1, 36*kib+1, 38*kib+1), []string{"BEA01", "BOOT2", "NSR02", "NSR03", "TEA01"}},
	{"vmfs", at(2*mib, 19*mib), []string{"\x5e\xf1\xab\x2f"}},
	{"zfs", zfsUberblocks(), []string{"\x0c\xb1\xba\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\xba\xb1\x0c"}},
	{"bcachefs", at(4096+24, 2*mib+24, -mib+24), []string{"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"}},

	// Members of volumes, caches, encryption.
	{"luks", at(0), []string{"LUKS\xba\xbe"}},
	{"luks", at(16*kib, 32*kib, 64*kib, 128*kib, 256*kib, 512*kib, mib, 2*mib, 4*mib), []string{"SKUL\xba\xbe"}},
	{"lvm", at(0, 512, 1024, 1536), []string{"LABELONE"}},
	{"lvm1", at(0), []string{"HM\x01\x00", "HM\x02\x00"}},
	{"DM_snapshot_cow", at(0), []string{"SnAp"}},
	{"DM_integrity", at(0), []string{"integrt\x00"}},
	{"DM_verity_hash", at(0), []string{"verity\x00\x00"}},
	{"bcache", at(4096 + 24), []string{"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"}},
	{"stratis", at(512+4, 9*512+4, 512, 9*512), []string{"!Stra0tis\x86\xff\x02^\x41rh"}},
	{"vdo", at(0), []string{"dmvdo001"}},
	{"drbdmanage_control_volume", at(0), []string{"$DRBDmgr=q"}},
	{"drbdproxy_datalog", at(0), []string{"DRBDdlh*"}},
	{"mpool", at(0), []string{"mpoolDev"}},
	{"geom", at(-512), []string{"GEOM::"}},
	{"core storage", at(88), []string{"CS\x00\x00", "CS\x01\x00", "CS\x02\x00"}},
	{"drbd", at(-4096+60, -4096+28), []string{"\x83\x74\x02\x6b", "\x83\x74\x02\x6d", "\x83\x74\x02\x67"}},
	{"oracleasm", at(32), []string{"ORCLDISK"}},
	{"VMFS_volume_member", at(mib), []string{"\x0d\xd0\x01\xc0"}},
	{"ceph", at(0, gib, 10*gib, 100*gib, 1000*gib), []string{"bluestore block device"}},
	{"swap", at(4086, 8182, 16374, 32758, 65526), []string{"SWAPSPACE2", "SWAP-SPACE", "S1SUSPEND", "S2SUSPEND", "ULSUSPEND", "LINHIB0001"}},
	{"swap", at(0), []string{"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"}}, // TuxOnIce

	// Images of virtual disks that were copied as they are.
	{"qcow2", at(0), []string{"QFI\xfb"}},
	{"vmdk", at(0), []string{"KDMV", "COWD"}},
	{"vdi", at(64), []string{"\x7f\x10\xda\xbe"}},
	{"vhd", at(0, -512), []string{"conectix"}},
	{"vhdx", at(0), []string{"vhdxfile"}},

	// RAID of Linux, and of controllers and firmware.
	{"raid", at(0, 4096), []string{"\xfc\x4e\x2b\xa9", "\xa9\x2b\x4e\xfc"}},
	{"ddf_raid_member", at(-512, -257*512), []string{"\xde\x11\xde\x11", "\x11\xde\x11\xde"}},
	{"isw_raid_member", at(-1024, -8192), []string{"Intel Raid ISM Cfg"}},
	{"lsi_mega_raid_member", at(-512), []string{"$XIDE$"}},
	{"nvidia_raid_member", at(-1024), []string{"NVIDIA"}},
	{"silicon_medley_raid_member", at(-512 + 96), []string{"\x00\x00\x00\x2f"}},
	{"adaptec_raid_member", at(-512+256, -512), []string{"DPTM", "\x37\xfc\x4d\x1e"}},
	{"jmicron_raid_member", at(-512), []string{"JM"}},
	{"via_raid_member", at(-512), []string{"\x55\xaa"}},
	{"hpt37x_raid_member", at(9*512 + 32), []string{"\xf0\x16\x78\x5a", "\xf3\x16\x78\x5a", "\xfd\x16\x78\x5a"}},
	{"hpt45x_raid_member", at(-11*512, -11*512+32), []string{"\xf3\x16\x78\x5a", "\xfd\x16\x78\x5a"}},
	{"promise_fasttrack_raid_member", promise(), []string{"Promise Technology, Inc."}},

	// Signatures that other systems' boot sectors share come last.
	{"mbr", at(510), []string{"\x55\xaa"}},
}

// amiga are the offsets of Amiga's table, which may be in any of the first 16 sectors.
func amiga() (all []int64) {
	for sector := range int64(16) {
		all = append(all, sector*512)
	}
	return all
}

// extCopies are the offsets of the magic number in ext's superblock and its copies: with the feature sparse_super, groups have one whose number is a power
// of 3, 5 or 7. A group's size follows from the size of blocks.
func extCopies() []int64 {
	all := at(1080)
	for _, group := range at(1, 3, 5, 7, 9, 25, 27, 49) {
		all = append(all, group*8*mib+kib+56, group*32*mib+56, group*128*mib+56)
	}
	return all
}

// zfsUberblocks are the offsets of the uberblocks in the two labels at the beginning. The offsets at the end depend on the size: see variable.
func zfsUberblocks() (all []int64) {
	for _, label := range at(0, 256*kib) {
		all = append(all, zfsLabel(label)...)
	}
	return all
}

func zfsLabel(label int64) (all []int64) {
	for i := range int64(128) {
		all = append(all, label+128*kib+i*kib)
	}
	return all
}

// promise are the offsets of Promise controllers' metadata, in sectors from the end.
func promise() (all []int64) {
	for _, n := range at(63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087) {
		all = append(all, -n*512)
	}
	return all
}

// variable returns the signatures whose offsets depend on the disk's size in other ways than their distance from the end.
func variable(size int64) []signature {
	find := func(name string) signature {
		return signatures[slices.IndexFunc(signatures, func(s signature) bool { return s.name == name })]
	}
	end := size / (256 * kib) * (256 * kib)
	quarter := size / 4 / 4096 * 4096 // XFS has four allocation groups up to 4 TiB, each with a superblock
	var groups []int64
	for _, n := range at(1, 2, 3) {
		groups = append(groups, n*quarter, n*(quarter+4096), n*(quarter-4096))
	}
	aligned := size / 4096 * 4096
	return []signature{
		{"raid", at((size/512-16)/8*4096, size/(64*kib)*(64*kib)-64*kib), find("raid").magic}, // metadata 1.0 and 0.90
		{"zfs", append(zfsLabel(end-512*kib), zfsLabel(end-256*kib)...), find("zfs").magic},
		{"nilfs2", at(aligned - 4096 + 6), find("nilfs2").magic},
		{"drbd", at(aligned-4096+60, aligned-4096+28), find("drbd").magic},
		{"xfs", groups, find("xfs").magic},
	}
}

// names returns the kinds whose signatures a disk has.
func names(r *regions) (found []string) {
	for _, s := range slices.Concat(signatures[:len(signatures)-1], variable(r.size), signatures[len(signatures)-1:]) {
		if !slices.Contains(found, s.name) && matches(r, s) {
			found = append(found, s.name)
		}
	}
	return found
}

func matches(r *regions, s signature) bool {
	return slices.ContainsFunc(s.at, func(offset int64) bool {
		if offset < 0 {
			offset += r.size
		}
		return slices.ContainsFunc(s.magic, func(m string) bool { return strings.HasPrefix(r.text(offset, len(m)), m) })
	})
}
