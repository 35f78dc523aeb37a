package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// SameFile gives dst the content of src: as a hard link if share is true and the file system allows it, else as a copy.
func SameFile(src, dst string, share bool) error {
	if share {
		err := os.Link(src, dst)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return CopyFile(src, dst)
}

// CopyFile copies content, mode and owner of a regular file; the kernel shares the blocks if it can.
func CopyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(fmt.Errorf("copy %s: %w", src, err), out.Close())
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &st); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Chown(int(st.Uid), int(st.Gid)), out.Chmod(info.Mode()), out.Close())
}

// FileDigest returns the SHA-256 of a file, in hexadecimal.
func FileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// RemoveGlob removes the files that match a pattern, such as those of an interrupted run.
func RemoveGlob(pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.RemoveAll(f); err != nil {
			return fmt.Errorf("remove what an interrupted run left: %w", err)
		}
	}
	return nil
}
