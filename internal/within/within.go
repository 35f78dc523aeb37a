// Package within opens files in a directory that untrusted users may be able to write to. It never opens a file outside of the directory: it refuses
// symbolic links that lead out, FIFOs and devices. The directory's own path may be a link.
//
// The package does not interpret the files.
package within

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Dir is an open directory. It stays the same directory if its path is replaced.
type Dir struct {
	root *os.Root
	path string
}

// Open opens a directory.
func Open(dir string) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Dir{root, dir}, nil
}

// Make opens a directory, and creates it first if it does not exist.
func Make(dir string, perm fs.FileMode) (*Dir, error) {
	if err := os.MkdirAll(dir, perm); err != nil {
		return nil, err
	}
	return Open(dir)
}

// Path returns the path that was passed to Open.
func (d *Dir) Path() string { return d.path }

// Close closes the directory. Files that it opened stay open.
func (d *Dir) Close() error { return d.root.Close() }

// Sub opens a subdirectory.
func (d *Dir) Sub(name string) (*Dir, error) {
	root, err := d.root.OpenRoot(local(name))
	if err != nil {
		return nil, d.explain(name, err)
	}
	return &Dir{root, filepath.Join(d.path, name)}, nil
}

// Open opens a regular file for reading. It does not block on a FIFO.
func (d *Dir) Open(name string) (*os.File, error) {
	f, err := d.root.OpenFile(local(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, d.explain(name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = d.irregular(name, info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// irregular returns the error for a name that is not a regular file.
func (d *Dir) irregular(name string, mode fs.FileMode) error {
	return fail.New(fail.Refused, "%s is not a regular file (%s)", name, mode.Type()).At(d.path)
}

// Read reads a regular file of at most so many bytes.
func (d *Dir) Read(name string, most int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fail.New(fail.Refused, "%s is larger than %d bytes", name, most).At(d.path)
	}
	return data, err
}

// Stat describes a file, and follows links.
func (d *Dir) Stat(name string) (fs.FileInfo, error) {
	info, err := d.root.Stat(local(name))
	return info, d.explain(name, err)
}

// Walk walks the tree below a name as fs.WalkDir does. It follows links only in the name itself.
func (d *Dir) Walk(name string, f fs.WalkDirFunc) error {
	return fs.WalkDir(d.root.FS(), filepath.ToSlash(local(name)), func(path string, e fs.DirEntry, err error) error {
		return f(path, e, d.explain(path, err))
	})
}

// Write writes a file atomically: fill writes to a temporary file in the same directory, which is then renamed. Write creates missing directories.
func (d *Dir) Write(name string, perm, dirPerm fs.FileMode, fill func(io.Writer) error) (err error) {
	name = filepath.ToSlash(local(name))
	above := path.Dir(name)
	if err := d.root.MkdirAll(above, dirPerm); err != nil {
		return d.explain(above, err)
	}
	tmp := path.Join(above, "."+path.Base(name)+"-"+rand.Text())
	f, err := d.root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return d.explain(tmp, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()          // already closed, or less important than the first error
			_ = d.root.Remove(tmp) // fails if it was renamed
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.root.Rename(tmp, name); err != nil {
		return d.explain(name, err)
	}
	return d.sync(above)
}

// MakeDir creates a directory, and those above it.
func (d *Dir) MakeDir(name string, perm fs.FileMode) error {
	return d.explain(name, d.root.MkdirAll(local(name), perm))
}

// SetTime sets the modification time of a file.
func (d *Dir) SetTime(name string, modified time.Time) error {
	return d.explain(name, d.root.Chtimes(local(name), modified, modified))
}

// sync makes the entries of a directory durable.
func (d *Dir) sync(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return d.explain(name, err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// Remove removes a file, a link or an empty directory.
func (d *Dir) Remove(name string) error { return d.explain(name, d.root.Remove(local(name))) }

// RemoveEmpty removes a directory if it is empty. It keeps links.
func (d *Dir) RemoveEmpty(name string) {
	if info, err := d.root.Lstat(local(name)); err == nil && info.IsDir() {
		_ = d.root.Remove(local(name)) // not empty, or no longer
	}
}

// RemoveAll removes a file, or a directory with its content.
func (d *Dir) RemoveAll(name string) error { return d.explain(name, d.root.RemoveAll(local(name))) }

// local converts a name to the form that os.Root expects.
func local(name string) string {
	if name == "" {
		return "."
	}
	return filepath.FromSlash(name)
}

// explain replaces the error for a link that leads out of the directory, and returns other errors unchanged.
func (d *Dir) explain(name string, err error) error {
	if err == nil || !Escapes(err) {
		return err
	}
	var known *fail.Error
	if errors.As(err, &known) {
		return err
	}
	return fail.Wrap(fail.Refused, escape{errors.New("it leads out of the directory")}, "open %s", name).At(d.path).
		Do("put a copy there, or a relative link that stays inside; a directory elsewhere can be bind-mounted")
}

// escape marks the error of a link that leads out.
type escape struct{ error }

// Escapes reports whether an error is that of a link that leads out of its directory.
func Escapes(err error) bool {
	var e escape
	// os.Root does not export this error.
	return errors.As(err, &e) || err != nil && strings.Contains(err.Error(), "path escapes from parent")
}
