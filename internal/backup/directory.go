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
	"github.com/naupegos/naupegos/internal/within"
)

// Directory is a Target in a directory of this host. Only the owner can read or write its files.
type Directory string

// String implements Target.
func (d Directory) String() string { return string(d) }

// Grace implements Target: every writer holds the cluster's lease, so that no other one is at work.
func (d Directory) Grace() time.Duration { return 0 }

// Shared is a Directory, such as an NFS mount, to which both machines (on a schedule) and operators write backups.
type Shared struct{ Directory }

// Grace implements Target.
func (Shared) Grace() time.Duration { return time.Hour }

func (d Directory) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Create implements Target.
func (d Directory) Create(_ context.Context, name string, fill func(io.Writer) error) error {
	in, err := within.Make(string(d), 0o700)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "make a directory for backups")
	}
	defer in.Close() // the data is already synced
	var wrong error
	err = in.Write(name, 0o600, 0o700, func(w io.Writer) error {
		wrong = fill(w)
		return wrong
	})
	if err != nil {
		in.RemoveEmpty(path.Dir(name))
	}
	if wrong != nil || err == nil {
		return wrong
	}
	return fail.Wrap(fail.Refused, err, "write a backup").At(d.path(name))
}

// Open implements Target.
func (d Directory) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	f, info, err := d.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fail.New(fail.NotFound, "there is no such file").At(d.path(name))
	}
	if err != nil {
		return nil, 0, fail.Wrap(fail.Refused, err, "read a backup").At(d.path(name))
	}
	return f, info.Size(), nil
}

func (d Directory) open(name string) (*os.File, fs.FileInfo, error) {
	in, err := within.Open(string(d))
	if err != nil {
		return nil, nil, err
	}
	defer in.Close() // read only
	f, err := in.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// List implements Target.
func (d Directory) List(ctx context.Context, dir string) (all []File, err error) {
	in, err := within.Open(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "look for backups").At(string(d))
	}
	defer in.Close() // read only
	err = in.Walk(dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile, or never created
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
		all = append(all, File{name, info.Size(), info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "look for backups").At(d.path(dir))
	}
	return all, nil
}

// Remove implements Target.
func (d Directory) Remove(_ context.Context, names ...string) error {
	in, err := within.Open(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "remove a backup")
	}
	defer in.Close() // a failure here does not undo removals
	for _, name := range names {
		if err := in.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail.Wrap(fail.Refused, err, "remove a backup")
		}
	}
	for _, name := range names {
		in.RemoveEmpty(path.Dir(name))
	}
	return nil
}
