// Package scratch creates private directories for data that must not outlast the process that works with it.
package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Dir is a directory that only its user reads. Remove it when the work is done; where the process is killed before, the next Make does.
type Dir struct {
	Path string
	lock *os.File // held while the process lives
}

// Make creates a directory in parent ("": the directory for temporary files), whose name begins with prefix. First it removes directories with
// this prefix that dead processes of the same user left behind: their content must not wait until a person looks.
func Make(parent, prefix string) (*Dir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if err := sweep(parent, prefix); err != nil {
		return nil, err
	}
	for range 10 { // another process may remove the directory before it is locked
		path, err := os.MkdirTemp(parent, prefix) // mode 0700
		if err != nil {
			return nil, fail.Wrap(fail.Refused, err, "create a private directory")
		}
		lock, err := hold(path)
		if err == nil {
			return &Dir{path, lock}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fail.Wrap(fail.Refused, err, "lock %s", path), os.RemoveAll(path))
		}
	}
	return nil, fail.New(fail.Conflict, "directories in %s vanish as soon as they are made", parent)
}

// hold locks a directory; fs.ErrNotExist where it was removed meanwhile, unix.EWOULDBLOCK where another process holds it.
func hold(path string) (_ *os.File, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // nothing was written
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}
	held, err := f.Stat()
	if err != nil {
		return nil, err
	}
	there, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !os.SameFile(held, there) {
		return nil, fs.ErrNotExist
	}
	return f, nil
}

// sweep removes what processes have left that are gone.
func sweep(parent, prefix string) error {
	left, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "look for what former runs have left")
	}
	for _, path := range left {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || !mine(info) {
			continue // gone, or another user's
		}
		lock, err := hold(path)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue // at work, or gone
		}
		if err == nil {
			err = errors.Join(os.RemoveAll(path), lock.Close())
		}
		if err != nil {
			return fail.Wrap(fail.Refused, err, "remove what a run has left that was killed").Do("it holds keys: remove %s", path)
		}
	}
	return nil
}

// Remove removes the directory and what is in it; it may be called again.
func (d *Dir) Remove() error {
	if d.lock == nil {
		return nil
	}
	err := errors.Join(os.RemoveAll(d.Path), d.lock.Close())
	d.lock = nil
	if err != nil {
		return fail.Wrap(fail.Refused, err, "remove a private directory").Do("it holds keys: remove %s", d.Path)
	}
	return nil
}

// mine reports whether a file is this user's.
func mine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
