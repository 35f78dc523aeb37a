package userdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Try finds out whether this user can write files in a directory, with room for some bytes, and says what helps if not. In a directory that exists it
// writes a file of that size and removes it. For one that is missing it looks at the nearest directory around it, and makes nothing.
func Try(dir string, room int64) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fail.New(fail.Refused, "is not a directory").At(dir).Do("name another one")
	case err == nil:
		return explain(write(dir, room), dir)
	case !errors.Is(err, fs.ErrNotExist):
		return explain(err, dir)
	}
	at := filepath.Dir(dir)
	for {
		if info, err = os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	if err == nil && !info.IsDir() {
		return fail.New(fail.Refused, "can't be made, because %s is not a directory", at).At(dir).Do("name another one")
	}
	if err == nil {
		err = unix.Access(at, unix.W_OK|unix.X_OK)
	}
	var disk unix.Statfs_t
	if err == nil {
		err = unix.Statfs(at, &disk)
	}
	if err == nil && uint64(disk.Bsize)*disk.Bavail < uint64(room) {
		err = unix.ENOSPC
	}
	return explain(err, dir)
}

// Place is a directory that commands write to.
type Place struct{ Name, Dir string }

// Try is Try, for a small file.
func (p Place) Try() error { return Try(p.Dir, 64<<10) }

// Places returns this user's directories, but for that of the store, as far as the environment says where they are.
func Places() (all []Place) {
	if dir, err := Cache(); err == nil {
		all = append(all, Place{"cache", dir})
	}
	if dir, err := Config(); err == nil {
		all = append(all, Place{"configuration", dir})
	}
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	if runtime == "" {
		runtime = os.TempDir()
	}
	return append(all, Place{"runtime files", runtime})
}

// write writes a file of this size to the disk, and removes it.
func write(dir string, size int64) (err error) {
	f, err := os.CreateTemp(dir, ".naupegos-try-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	for block := make([]byte, 64<<10); size > 0 && err == nil; size -= int64(len(block)) {
		_, err = f.Write(block)
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// explain says what helps if a directory can't be written to.
func explain(err error, dir string) error {
	if err == nil {
		return nil
	}
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	e := fail.Wrap(fail.Refused, err, "write files").At(dir)
	owner, known := OtherOwner(dir)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return e.Do("make room")
	case errors.Is(err, unix.EROFS):
		return e.Do("name a directory on a disk that can be written")
	case errors.Is(err, fs.ErrPermission) && known:
		return e.Do("it belongs to %s: run the command as that user, or name another directory", owner)
	}
	return e.Do("name another directory")
}
