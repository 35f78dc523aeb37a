package runner

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
	"github.com/naupegos/naupegos/internal/tool"
)

// ownImage returns the root file system of an image that `naupegos image build` made, read from its data in Glance. It is unpacked once for all
// machines of the image. Machines then have the content of a server's disk except kernel and boot loader, which containers do not use.
func (c *cloud) ownImage(in content) *layers.Base {
	return &layers.Base{
		Key: in.SHA512, Title: "root file system of image " + in.Image,
		Unpack: func(ctx context.Context, root string, progress plan.Progress) error {
			tmp, err := os.MkdirTemp(filepath.Dir(root), "disk-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(tmp)
			disk := filepath.Join(tmp, "disk.raw")
			if err := c.fetch(ctx, in, disk, progress); err != nil {
				return fail.Wrap(fail.KindOf(err), err, "get the image's data").At(in.Image)
			}
			progress.Status("copying the root file system of image %s", in.Image)
			if err := copyRoot(ctx, disk, filepath.Join(tmp, "mnt"), root); err != nil {
				return fail.Wrap(fail.KindOf(err), err, "copy the image's root file system").At(in.Image)
			}
			return nil
		},
	}
}

// fetch writes the image's disk to a file in raw format, after checking the data against the digest in the image's properties.
func (c *cloud) fetch(ctx context.Context, in content, disk string, progress plan.Progress) error {
	progress.Status("reading image %s", in.Image)
	data, format, err := c.data(ctx, in.Image)
	if err != nil {
		return err
	}
	defer data.Close() // only read from
	got := disk + ".got"
	f, err := os.OpenFile(got, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha512.New()
	_, err = io.Copy(io.MultiWriter(f, sum), data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != in.SHA512 {
		return fail.New(fail.Conflict, "Glance's data have another SHA-512 than the property %s says", digestProperty)
	}
	if format == "raw" {
		return os.Rename(got, disk)
	}
	_, err = tool.Run(ctx, nil, "qemu-img", "convert", "-q", "-f", format, "-O", "raw", got, disk)
	return errors.Join(err, os.Remove(got))
}

// copyRoot copies the file system of a disk's root partition. Only this thread sees the mount, and the mount ends with the thread.
func copyRoot(ctx context.Context, disk, mnt, to string) error {
	start, size, err := rootPartition(ctx, disk)
	if err != nil {
		return err
	}
	if err := os.Mkdir(mnt, 0o700); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function, and its mounts with it
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("make a mount name space: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return fmt.Errorf("make mounts private: %w", err)
			}
			if _, err := tool.Run(ctx, nil, "mount", "-t", "ext4", "-o", fmt.Sprintf("ro,loop,offset=%d,sizelimit=%d", start, size), disk, mnt); err != nil {
				return err
			}
			_, err := tool.Run(ctx, nil, "cp", "--archive", "--no-target-directory", mnt, to)
			return errors.Join(err, unix.Unmount(mnt, 0))
		}()
	}()
	return <-done
}

// linuxRoot is the type of root partitions for this processor. Images are built for this processor only.
const linuxRoot = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"

// rootPartition returns the offset and size of the root partition on a disk, in bytes.
func rootPartition(ctx context.Context, disk string) (start, size int64, err error) {
	out, err := tool.Run(ctx, nil, "sfdisk", "--json", disk)
	if err != nil {
		return 0, 0, err
	}
	type partition struct {
		Start, Size int64
		Type        string
	}
	var table struct {
		PartitionTable struct {
			SectorSize int64
			Partitions []partition
		}
	}
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		return 0, 0, fmt.Errorf("read the partition table: %w", err)
	}
	t := table.PartitionTable
	i := slices.IndexFunc(t.Partitions, func(p partition) bool { return p.Type == linuxRoot })
	if i < 0 || t.SectorSize == 0 {
		return 0, 0, fail.New(fail.Invalid, "the disk has no partition of type %s", linuxRoot)
	}
	return t.Partitions[i].Start * t.SectorSize, t.Partitions[i].Size * t.SectorSize, nil
}
