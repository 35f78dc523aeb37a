package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Directory is a directory of this host as a Target. Files in it are their owner's alone.
type Directory string

// String implements Target.
func (d Directory) String() string { return string(d) }

// Grace implements Target: whoever writes here holds the cluster's lease.
func (d Directory) Grace() time.Duration { return 0 }

// Shared is a directory that machines which make backups on a schedule share with whoever makes them by hand, such as one of NFS.
type Shared struct{ Directory }

// Grace implements Target.
func (Shared) Grace() time.Duration { return time.Hour }

func (d Directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Create implements Target.
func (d Directory) Create(_ context.Context, name string, fill func(io.Writer) error) (err error) {
	file := d.path(name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fail.Wrap(fail.Refused, err, "make a directory for backups")
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+path.Base(name)+"-*") // 0600
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write a backup")
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or the first error says more
			_ = os.Remove(f.Name())
			_ = os.Remove(filepath.Dir(file)) // where nothing else is in it
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fail.Wrap(fail.Refused, err, "write a backup").At(file)
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return fail.Wrap(fail.Refused, err, "write a backup").At(file)
	}
	return syncDir(filepath.Dir(file))
}

// syncDir has the names in a directory outlive a loss of power.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write a backup").At(dir)
	}
	return nil
}

// Open implements Target.
func (d Directory) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fail.New(fail.NotFound, "there is no such file").At(d.path(name))
	}
	if err != nil {
		return nil, 0, fail.Wrap(fail.Refused, err, "read a backup")
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, 0, fail.Wrap(fail.Refused, err, "read a backup").At(d.path(name))
	}
	return f, info.Size(), nil
}

// List implements Target.
func (d Directory) List(ctx context.Context, dir string) (all []File, err error) {
	root := d.path(dir)
	err = filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile, or never there
			return nil
		case err != nil:
			return err
		case e.IsDir():
			return ctx.Err()
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(string(d), file)
		all = append(all, File{filepath.ToSlash(rel), info.Size(), info.ModTime()})
		return err
	})
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "look for backups").At(root)
	}
	return all, nil
}

// Remove implements Target.
func (d Directory) Remove(_ context.Context, names ...string) error {
	for _, name := range names {
		if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail.Wrap(fail.Refused, err, "remove a backup")
		}
	}
	for _, name := range names {
		_ = os.Remove(filepath.Dir(d.path(name))) // where nothing else is in it
	}
	return nil
}
