package layers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/rootfs"
)

// CopyStore copies a ready-made containerd store: it hard-links image layers and blobs, which never change, and
// really copies the databases, which containerd writes in place.
func CopyStore(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return copyDir(path, target, info)
		case d.Type().IsRegular():
			return rootfs.SameFile(path, target, !strings.HasSuffix(path, ".db"))
		case d.Type()&fs.ModeSymlink != 0, d.Type()&fs.ModeDevice != 0:
			return os.Link(path, target) // link(2) does not follow symbolic links; whiteouts in layers are devices
		default:
			return fmt.Errorf("%s: unexpected kind of file %s", path, d.Type())
		}
	})
}

// copyDir makes target a directory with the mode, owner and overlay mark of path.
func copyDir(path, target string, info fs.FileInfo) error {
	if err := os.Mkdir(target, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if err := os.Chown(target, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	var opaque [8]byte
	const mark = "trusted.overlay.opaque"
	if n, err := unix.Lgetxattr(path, mark, opaque[:]); err == nil {
		if err := unix.Lsetxattr(target, mark, opaque[:n], 0); err != nil {
			return err
		}
	}
	return os.Chmod(target, info.Mode())
}
