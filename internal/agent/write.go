package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// staged is a file that was written beside its destination.
type staged struct {
	path string // path in the configuration
	tmp  string // real path of the new content
}

// tmpName returns the same name in every run, so that a run finds and replaces the leftovers of a killed one. Runs exclude each other.
func (a *Agent) tmpName(p string) string {
	dir, base := filepath.Split(a.path(p))
	return filepath.Join(dir, ".naupegos-new."+base)
}

// stage writes content beside p with its final mode and owner. It is not synced yet.
func (a *Agent) stage(p string, content []byte, mode fs.FileMode, uid, gid int) (_ staged, err error) {
	s := staged{path: p, tmp: a.tmpName(p)}
	if err := os.Remove(s.tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, fileError(err, "write", p)
	}
	f, err := os.OpenFile(s.tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return s, fileError(err, "write", p)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fileError(cerr, "write", p)
		}
		if err != nil {
			_ = os.Remove(s.tmp)
		}
	}()
	if _, err := f.Write(content); err != nil {
		return s, fileError(err, "write", p)
	}
	if uid != os.Geteuid() || gid != os.Getegid() {
		if err := f.Chown(uid, gid); err != nil {
			return s, fileError(err, "set the owner of", p)
		}
	}
	if err := f.Chmod(mode); err != nil {
		return s, fileError(err, "set the mode of", p)
	}
	return s, nil
}

// commit makes staged files durable, renames each to its destination, and makes the renames durable. It syncs in parallel, so that the file system
// writes its journal once for many.
func (a *Agent) commit(files []staged) error {
	if err := each(files, func(s staged) error { return syncPath(s.tmp, s.path) }); err != nil {
		a.unstage(files)
		return err
	}
	dirs := map[string]bool{}
	for i, s := range files {
		if err := os.Rename(s.tmp, a.path(s.path)); err != nil {
			a.unstage(files[i:])
			return fileError(err, "put in place", s.path)
		}
		dirs[filepath.Dir(a.path(s.path))] = true
	}
	return a.syncDirs(dirs)
}

func (a *Agent) unstage(files []staged) {
	for _, s := range files {
		_ = os.Remove(s.tmp) // the next run would replace it anyway
	}
}

// syncDirs makes renames and removals in real directories durable.
func (a *Agent) syncDirs(dirs map[string]bool) error {
	list := make([]string, 0, len(dirs))
	for d := range dirs {
		list = append(list, d)
	}
	return each(list, func(d string) error { return syncPath(d, d) })
}

// syncPath syncs the real path; its errors name where.
func syncPath(real, where string) error {
	f, err := os.Open(real)
	if err != nil {
		return fileError(err, "sync", where)
	}
	defer func() { _ = f.Close() }()
	if err := f.Sync(); err != nil {
		return fileError(err, "sync", where)
	}
	return nil
}

// each calls do for all of list, at most sixteen at a time, and returns the first error.
func each[T any](list []T, do func(T) error) error {
	var g errgroup.Group
	g.SetLimit(16)
	for _, x := range list {
		g.Go(func() error { return do(x) })
	}
	return g.Wait()
}

// writeFile writes one of the agent's own files.
func (a *Agent) writeFile(p string, content []byte, mode fs.FileMode) error {
	s, err := a.stage(p, content, mode, os.Geteuid(), os.Getegid())
	if err != nil {
		return err
	}
	return a.commit([]staged{s})
}

// fileError gives a file system error a kind and a remedy. It never contains file content.
func fileError(err error, what, where string) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("the disk is full: free space on its file system, then run again; the former content is untouched")
	case errors.Is(err, unix.EROFS):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("the file system is read-only: remount it for writing, then run again")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("the agent must run as root, and the file must not be immutable (lsattr)")
	}
	return fail.Wrap(fail.Internal, err, "%s", what).At(where)
}
