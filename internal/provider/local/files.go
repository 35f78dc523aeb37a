package local

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
)

// writeFile writes a file so that after a crash there is either the old content or the new: temporary file, fsync, rename.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := replaceFile(path, data, mode, (*os.File).Sync); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
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

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'), 0o600)
}

// writeVolatileJSON is writeJSON for what means nothing after a crash of the host, or less than the wait for the disk costs.
func writeVolatileJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(data, '\n'), 0o600, func(*os.File) error { return nil })
}

// readJSON reads path into v. A missing file is fs.ErrNotExist.
func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fail.Wrap(fail.Internal, err, "read").At(path)
	}
	return nil
}
