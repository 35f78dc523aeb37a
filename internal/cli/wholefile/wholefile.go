// Package wholefile writes files that a verb names, whole or not at all: to a temporary name beside them, synced, renamed.
//
// It knows nothing of what is in them.
package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
)

// Rewrite puts new content in place of a file's, whole or not at all, and keeps its mode. A link stays a link.
func Rewrite(path string, data []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return fail.Wrap(fail.Invalid, err, "write %s", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "write %s", path)
	}
	return Replace(path, data, info.Mode().Perm())
}

// Replace writes a file, whole or not at all, in place of one that may be there.
func Replace(path string, data []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".naupegos-*")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or the first error says more
			_ = os.Remove(f.Name())
		}
	}()
	for _, do := range []func() error{
		func() error { _, err := f.Write(data); return err },
		func() error { return f.Chmod(mode) },
		f.Sync, f.Close,
		func() error { return os.Rename(f.Name(), path) },
	} {
		if err := do(); err != nil {
			return fail.Wrap(fail.Refused, err, "write %s", path)
		}
	}
	return nil
}

// Write makes a file appear only when it is whole.
func Write(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write file").At(path)
	}
	defer os.Remove(f.Name()) // gone after the rename
	if err = write(f); err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail.Wrap(fail.Refused, err, "write file").At(path)
	}
	return nil
}
