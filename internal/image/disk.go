package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Partitions in bytes, numbered as in Debian's cloud images. The root file system is the last one, so that machines can grow it.
const (
	kib, mib, gib = int64(1) << 10, int64(1) << 20, int64(1) << 30

	sector    = int64(512)
	biosStart = mib // partition 14: GRUB's core for BIOS
	biosSize  = 3 * mib
	espStart  = biosStart + biosSize // partition 15: EFI system partition
	espSize   = 64 * mib
	rootStart = espStart + espSize // partition 1
	endSize   = mib                // the second partition table
)

// layout contains the sizes on the disk.
type layout struct{ disk int64 }

func (l layout) rootSize() int64 { return l.disk - rootStart - endSize }
func (l layout) sizeGiB() int    { return int(l.disk / gib) }

// slack is the free space that a machine needs until its file system has grown.
const slack = 512 * mib

// layout chooses the disk's size, or checks the requested one.
func (b *builder) layout(root string) (layout, error) {
	used, err := treeSize(root)
	if err != nil {
		return layout{}, err
	}
	least := used + used/12 + slack + rootStart // a twelfth: journal, inodes, reserve
	if b.Format == System {                     // no larger than necessary, because machines must fetch, checksum and write it
		return layout{disk: (least + endSize + mib - 1) / mib * mib}, nil
	}
	need := int((least + gib - 1) / gib)
	if b.SizeGiB > 0 && b.SizeGiB < need {
		return layout{}, fail.New(fail.Invalid, "a disk of %d GiB is too small for %d MiB of files", b.SizeGiB, used>>20).
			Do("give --size %d or more, or leave it out", need)
	}
	return layout{disk: int64(max(need, b.SizeGiB)) * gib}, nil
}

// treeSize returns the space that the files of a tree take on a disk.
func treeSize(root string) (int64, error) {
	var n int64
	seen := map[uint64]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		if st.Nlink > 1 && !d.IsDir() && seen[st.Ino] {
			return nil
		}
		seen[st.Ino] = true
		n += (st.Size+4095)&^4095 + 512
		return nil
	})
	return n, err
}

// makeDisk makes the disk with partition table, boot loaders and file systems. Nothing is mounted, and no block device is needed.
func (b *builder) makeDisk(ctx context.Context, d layout, root, disk string) error {
	core, err := b.installGRUB(ctx, root)
	if err != nil {
		return err
	}
	esp := filepath.Join(b.work, "esp")
	if err := b.makeESP(ctx, root, esp); err != nil {
		return err
	}
	b.Progress.Status("writing a disk of %d GiB", d.sizeGiB())
	f, err := os.OpenFile(disk, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(d.disk), f.Close()); err != nil {
		return err
	}
	if err := b.partition(ctx, d, disk); err != nil {
		return err
	}
	if err := b.makeRootFS(ctx, rootStart, d.rootSize(), root, disk); err != nil {
		return err
	}
	return fill(disk, root, core, esp)
}

// partition writes the partition table.
func (b *builder) partition(ctx context.Context, d layout, disk string) error {
	var s strings.Builder
	fmt.Fprintf(&s, "label: gpt\nlabel-id: %s\nunit: sectors\nsector-size: 512\n", b.ids.disk)
	for _, p := range []struct {
		number      int
		start, size int64
		kind, id    string
		name        string
	}{
		{1, rootStart, d.rootSize(), "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", b.ids.system, "root"}, // Linux root (x86-64)
		{14, biosStart, biosSize, "21686148-6449-6E6F-744E-656564454649", b.ids.bios, "bios"},      // BIOS boot
		{15, espStart, espSize, "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", b.ids.efi, "esp"},          // EFI system
	} {
		fmt.Fprintf(&s, "%d : start=%d, size=%d, type=%s, uuid=%s, name=%s\n", p.number, p.start/sector, p.size/sector, p.kind, p.id, p.name)
	}
	_, err := tool.Run(ctx, strings.NewReader(s.String()), "sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", disk)
	return err
}

// ext4Features are the features that GRUB can read, independent of the host's /etc/mke2fs.conf.
const ext4Features = `[defaults]
	base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
	default_mntopts = acl,user_xattr
	enable_periodic_fsck = 0
	blocksize = 4096
	inode_size = 256
	inode_ratio = 16384
[fs_types]
	ext4 = {
		features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
	}
`

// makeRootFS makes the root file system from the tree, at its place on the disk.
func (b *builder) makeRootFS(ctx context.Context, start, size int64, root, disk string) error {
	conf := filepath.Join(b.work, "mke2fs.conf")
	if err := os.WriteFile(conf, []byte(ext4Features), 0o600); err != nil {
		return err
	}
	// through env(1): the tool's own environment is the user's
	_, err := tool.Run(ctx, nil, "env", "MKE2FS_CONFIG="+conf, "mke2fs", "-q", "-F", "-t", "ext4", "-d", root, "-L", "root", "-U", b.ids.root, "-m", "1",
		"-E", fmt.Sprintf("offset=%d,hash_seed=%s,root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0,nodiscard", start, b.ids.root),
		disk, fmt.Sprintf("%dk", size/kib))
	return err
}

// fill writes the boot loader for BIOS and the EFI system partition to their places.
func fill(disk, root, core, esp string) (err error) {
	f, err := os.OpenFile(disk, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := embedGRUB(f, root, core); err != nil {
		return err
	}
	part, err := os.Open(esp)
	if err != nil {
		return err
	}
	defer part.Close() // read only
	if _, err := io.Copy(io.NewOffsetWriter(f, espStart), part); err != nil {
		return err
	}
	return f.Sync()
}
