package files

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// write writes a file so that after a crash there is either the old content or the new: temporary file, fsync, rename.
func write(path string, data []byte, mode fs.FileMode) error {
	if err := replaceFile(path, data, mode, (*os.File).Sync); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// replaceFile writes a file so that other processes see either the old content or the new. What sync does decides what a
// crash of the host leaves.
func replaceFile(path string, data []byte, mode fs.FileMode, sync func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already after the rename
	if err := f.Chmod(mode); err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(sync(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// SyncDir writes out what was made, renamed or removed in a directory.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteJSON writes v as JSON, whole or not at all, for root alone.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return write(path, append(data, '\n'), 0o600)
}

// WriteVolatileJSON is WriteJSON for what means nothing after a crash of the host, or less than the wait for the disk costs.
func WriteVolatileJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(data, '\n'), 0o600, func(*os.File) error { return nil })
}

// ReadJSON reads path into v. A missing file is fs.ErrNotExist.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fail.Wrap(fail.Internal, err, "read").At(path)
	}
	return nil
}

// IgnoreGone returns err, or nil where it says that there is no such file.
func IgnoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// MakeError wraps an error of making something on the disk; a full disk gets its own kind and advice.
func MakeError(err error, what, where string) error {
	if tool.DiskFull(err) {
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("make room on the disk and apply again")
	}
	return fail.Wrap(fail.KindOf(err), err, "%s", what).At(where)
}
