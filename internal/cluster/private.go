package cluster

import (
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
)

// WritePrivate writes a file that only its owner may read, whole or not at all. Its directory is made 0700 if absent.
func WritePrivate(path string, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail.Wrap(fail.Refused, err, "make directory %s", dir)
	}
	f, err := os.CreateTemp(dir, ".part-*") // 0600
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or the first error says more
			_ = os.Remove(f.Name())
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	if err := f.Close(); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	return nil
}

// privateDir makes a directory that only its owner may look into, or makes sure that one that exists is nobody else's to change.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail.Wrap(fail.Refused, err, "make directory %s", dir)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "look at %s", dir)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fail.New(fail.Refused, "others may write into %s (mode %04o), and keys are to lie there", dir, info.Mode().Perm()).
			Do("chmod go-w %s, or name a directory of your own", dir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fail.New(fail.Refused, "%s belongs to another user, and keys are to lie there", dir).Do("name a directory of your own")
	}
	return nil
}
