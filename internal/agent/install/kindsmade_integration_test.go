//go:build integration

package install

const xfsDisk = 320 << 20 // mkfs.xfs wants 300 MiB

// luks is the cheap form of cryptsetup luksFormat.
const luks = `cryptsetup luksFormat -q --pbkdf-force-iterations 1000 --key-file "$tree/file" --keyfile-size 32 `

// lvm keeps LVM to the one device of the test. It inherits no descriptors that it would complain about.
const lvm = ` --devices "$device" -q -q "$device"`

// madeKinds are written by the programs that administrators use.
var madeKinds = []diskKind{
	// File systems.
	{name: "ext2", command: `mke2fs -q -F -t ext2 "$image"`},
	{name: "ext3", command: `mke2fs -q -F -t ext3 "$image"`},
	{name: "ext4", command: `mke2fs -q -F -t ext4 "$image"`},
	{name: "ext4 with blocks of 4 KiB", size: 640 << 20, command: `mke2fs -q -F -t ext4 -b 4096 "$image"`},
	{name: "ext4dev", command: `mke2fs -q -F -t ext4 -E test_fs "$image"`},
	{name: "ext4's journal", size: 16 << 20, command: `mke2fs -q -F -O journal_dev "$image"`},
	{name: "xfs", size: xfsDisk, command: `mkfs.xfs -q "$image"`},
	{name: "xfs, version 4", size: xfsDisk, command: `mkfs.xfs -q -m crc=0 "$image"`},
	{name: "exfs", size: xfsDisk, command: `mkfs.xfs -q -m crc=0 "$image"`, written: func(d *sparseDisk) { d.put(0, "EXFS") }}, // SGI's, the predecessor of XFS
	{name: "xfs's journal", command: `truncate -s 320M "$dir/main"; mkfs.xfs -q -l logdev="$image",size=64m "$dir/main"`},
	{name: "btrfs", command: `mkfs.btrfs -q "$image"`},
	{name: "f2fs", command: `mkfs.f2fs -q "$image"`},
	{name: "jfs", command: `mkfs.jfs -q "$image"`},
	{name: "jfs's journal", size: 16 << 20, command: `mkfs.jfs -q -J journal_dev "$image"`},
	{name: "reiserfs", command: `mkfs.reiserfs -q -f -f "$image"`},
	{name: "reiserfs 3.5", command: `mkfs.reiserfs -q -f -f --format 3.5 "$image"`},
	{name: "reiser4", command: `mkfs.reiser4 -f -y "$image"`},
	{name: "nilfs2", command: `mkfs.nilfs2 -q -f "$image"`},
	{name: "exfat", command: `mkfs.exfat "$image"`},
	{name: "FAT12", size: 16 << 20, command: `mkfs.vfat -F 12 "$image"`},
	{name: "FAT16", command: `mkfs.vfat -F 16 "$image"`},
	{name: "FAT32", command: `mkfs.vfat -F 32 "$image"`},
	{name: "ntfs", command: `mkntfs -q -F -Q "$image"`},
	{name: "minix 1", command: `mkfs.minix -1 "$image"`},
	{name: "minix 2", command: `mkfs.minix -2 "$image"`},
	{name: "minix 3", command: `mkfs.minix -3 "$image"`},
	{name: "SCO bfs", command: `mkfs.bfs "$image"`},
	{name: "udf", command: `mkudffs -b 512 "$image"`},
	{name: "udf with blocks of 2 KiB", command: `mkudffs -b 2048 --media-type=dvdram "$image"`},
	{name: "gfs2", command: `mkfs.gfs2 -q -O -p lock_nolock "$image"`},
	{name: "gfs", command: `mkfs.gfs2 -q -O -p lock_nolock "$image"`, written: func(d *sparseDisk) { d.put(64<<10+24, "\x00\x00\x05\x1d\x00\x00\x05\x79") }}, // its format's number
	{name: "ocfs2", command: `mkfs.ocfs2 -q -M local -x -F "$image"`},
	{name: "hfs", command: `hformat -l x "$image"`},
	{name: "apfs", command: `mkapfs "$image"`},
	{name: "UFS1", size: 16 << 20, command: `makefs -t ffs -o version=1 -s 16m "$image" "$tree"`},
	{name: "UFS2", size: 16 << 20, command: `makefs -t ffs -o version=2 -s 16m "$image" "$tree"`},
	{name: "UFS2, big-endian", size: 16 << 20, command: `makefs -t ffs -B be -o version=2 -s 16m "$image" "$tree"`},
	{name: "ISO 9660", command: `genisoimage -quiet -R -o "$image" "$tree"`},
	{name: "ISO 9660 and UDF", command: `genisoimage -quiet -udf -o "$image" "$tree"`},
	{name: "ISO 9660 and HFS", command: `genisoimage -quiet -hfs -o "$image" "$tree"`},
	{name: "cd9660 of BSD", command: `makefs -t cd9660 "$image" "$tree"`},
	{name: "ubifs", command: `mkfs.ubifs -r "$tree" -m 2048 -e 126976 -c 2000 -o "$image"`},
	{name: "ubi", command: `mkfs.ubifs -r "$tree" -m 2048 -e 126976 -c 2000 -o "$dir/ubifs"
printf '[v]\nmode=ubi\nimage=%s\nvol_id=0\nvol_type=dynamic\nvol_name=v\nvol_flags=autoresize\n' "$dir/ubifs" > "$dir/ubi.ini"
ubinize -o "$image" -p 128KiB -m 2048 "$dir/ubi.ini"`},
	{name: "jffs2", command: `mkfs.jffs2 -r "$tree" -o "$image"`, wants: "jffs2"},
	{name: "squashfs", command: `mksquashfs "$tree" "$image" -noappend -quiet -no-progress`},
	{name: "squashfs 3", command: `mksquashfs "$tree" "$image" -noappend -quiet -no-progress`, written: func(d *sparseDisk) { d.put(28, "\x03\x00") }}, // its major version
	{name: "erofs", command: `mkfs.erofs "$image" "$tree"`},
	{name: "cramfs", command: `mkfs.cramfs "$tree" "$image"`},
	{name: "cramfs, big-endian", command: `mkfs.cramfs -N big "$tree" "$image"`},
	{name: "romfs", command: `genromfs -d "$tree" -f "$image"`},

	// Volumes, encryption, caches, swap.
	{name: "LVM", command: `pvcreate -y` + lvm},
	{name: "LVM with metadata at both ends", command: `pvcreate -y --metadatacopies 2` + lvm + "\nvgcreate" + ` -q -q --devices "$device" naupegos-test-"${device##*/}" "$device"; rm -f /etc/lvm/backup/naupegos-test-"${device##*/}"`},
	{name: "LVM without metadata, in the last sector that a label may have", command: `pvcreate -y --metadatacopies 0 --labelsector 3` + lvm},
	{name: "LUKS1", command: luks + `--type luks1 "$image"`},
	{name: "LUKS2", command: luks + `--type luks2 --pbkdf pbkdf2 "$image"`},
	{name: "LUKS2 with a header of 4 MiB", command: luks + `--type luks2 --pbkdf pbkdf2 --luks2-keyslots-size 3m --luks2-metadata-size 512k "$image"`},
	{name: "LUKS1's detached header", command: luks + `--type luks1 --header "$dir/header" "$image"; cp "$dir/header" "$image"`},
	{name: "LUKS2's detached header", command: luks + `--type luks2 --pbkdf pbkdf2 --header "$dir/header" "$image"; cp "$dir/header" "$image"`},
	{name: "LUKS2's data, whose header is elsewhere", command: luks + `--type luks2 --pbkdf pbkdf2 --header "$dir/header" "$image"`}, // zeros until it is used
	{name: "dm-verity's hashes", size: 16 << 20, command: `mkdir -p "$dir"; veritysetup format "$tree/file" "$image"`},
	{name: "bcache's backing device", command: `make-bcache -B "$image"`},
	{name: "bcache's cache", command: `make-bcache -C "$image"`},
	{name: "DRBD 8", command: `drbdmeta --force 0 v08 "$image" internal create-md`, wants: "drbd"},
	{name: "DRBD 8 on whole blocks", size: 128 << 20, command: `drbdmeta --force 0 v08 "$image" internal create-md`},
	{name: "DRBD 9 on whole blocks", size: 128 << 20, command: `drbdmeta --force 0 v09 "$image" internal create-md 1`},
	{name: "DRBD 9", command: `drbdmeta --force 0 v09 "$image" internal create-md 1`, wants: "drbd"},
	{name: "swap", command: `mkswap "$image"`},
	{name: "swap with pages of 64 KiB", command: `mkswap -p 65536 "$image"`},

	// Partition tables.
	{name: "GPT", command: `printf 'label: gpt\n,32M\n' | sfdisk -q "$image"`},
	{name: "GPT without partitions", command: `printf 'label: gpt\n' | sfdisk -q "$image"`},
	{name: "MBR", command: `printf 'label: dos\n,32M\n' | sfdisk -q "$image"`},
	{name: "MBR without partitions", command: `printf 'label: dos\n' | sfdisk -q "$image"`},
	{name: "Sun's table", command: `printf 'label: sun\n' | sfdisk -q "$image"`},
	{name: "SGI's table", command: `printf 'label: sgi\n' | sfdisk -q "$image"`},
	{name: "Apple's table", command: `parted -s "$image" mklabel mac`},
	{name: "Amiga's table", command: `parted -s "$image" mklabel amiga`, wants: "amiga disklabel"},
	{name: "BSD's table", command: `parted -s "$image" mklabel bsd`, wants: "bsd disklabel"},
	{name: "DVH", command: `parted -s "$image" mklabel dvh`},
	{name: "PC-98's table", command: `parted -s "$image" mklabel pc98`},
	{name: "Atari's table", command: `parted -s "$image" mklabel atari mkpart primary 1MiB 20MiB`},

	// Images of virtual disks, and archives, copied to a disk.
	{name: "qcow2", command: `qemu-img create -q -f qcow2 "$image" 1G`, wants: "qcow2"},
	{name: "VMDK", command: `qemu-img create -q -f vmdk "$image" 1G`, wants: "vmdk"},
	{name: "VDI", command: `qemu-img create -q -f vdi "$image" 1G`, wants: "vdi"},
	{name: "VHD", command: `qemu-img create -q -f vpc "$image" 1G`, wants: "vhd"},
	{name: "VHDX", command: `qemu-img create -q -f vhdx "$image" 1G`, wants: "vhdx"},
	{name: "tar", command: `tar -cf "$image" -C "$tree" .`},
	{name: "gzip", command: `gzip -c "$tree/file" > "$image"`},
}
