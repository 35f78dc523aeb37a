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

// write writes a file so that a crash leaves either the old content or the new: temporary file, fsync, rename.
func write(path string, data []byte, mode fs.FileMode) error {
	if err := replaceFile(path, data, mode, (*os.File).Sync); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// replaceFile writes a file so that other processes see either the old content or the new. If sync does not sync it, a crash of the host
// may leave neither.
func replaceFile(path string, data []byte, mode fs.FileMode, sync func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no-op after the rename
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

// SyncDir writes a directory's entries to the disk, so that files created, renamed or removed in it stay so after a crash.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteJSON atomically writes v as JSON, with mode 0600.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return write(path, append(data, '\n'), 0o600)
}

// WriteVolatileJSON is WriteJSON without fsync, for content that a crash of the host makes useless, or that is not worth the wait for the disk.
func WriteVolatileJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(data, '\n'), 0o600, func(*os.File) error { return nil })
}

// ReadJSON reads path into v. The error for a missing file is fs.ErrNotExist.
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

// IgnoreGone returns err, or nil if err is fs.ErrNotExist.
func IgnoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// MakeError wraps an error from creating something on the disk; a full disk becomes fail.Refused with its own advice.
func MakeError(err error, what, where string) error {
	if tool.DiskFull(err) {
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("make room on the disk and apply again")
	}
	return fail.Wrap(fail.KindOf(err), err, "%s", what).At(where)
}
