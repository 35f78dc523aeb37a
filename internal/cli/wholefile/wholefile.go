// Package wholefile writes files atomically: under a temporary name in the same directory, synced, then renamed.
//
// It does not depend on the files' content.
package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
)

// Rewrite replaces the content of a file atomically, and keeps its mode. A link stays a link.
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

// Replace writes a file atomically, and replaces an existing one.
func Replace(path string, data []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".naupegos-*")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or the first error is more useful
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

// Write makes a file appear only when it is complete.
func Write(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write file").At(path)
	}
	defer os.Remove(f.Name()) // fails after the rename
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
