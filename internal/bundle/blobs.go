package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/naupegos/naupegos/internal/fail"
)

// ioError gives an error of the file system a kind: fail.Refused if the user can fix it (a full disk, missing rights), else fail.Internal.
func ioError(err error, what, where string) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).
			Do("free space there (a build needs about 4 GiB, a finished bundle about 1 GiB), then run it again: it continues where it stopped")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fail.Wrap(fail.Refused, err, "%s", what).At(where).Do("run it as a user who may write there, or name another library")
	}
	return fail.Wrap(fail.Internal, err, "%s", what).At(where)
}

// writeFile writes a file atomically.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return ioError(err, "write file", path)
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(data)
	if err := finish(f, err, mode); err != nil {
		return ioError(err, "write file", path)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return ioError(err, "write file", path)
	}
	return syncDir(filepath.Dir(path))
}

// finish sets the mode of f, flushes it and closes it. err is an earlier error: then finish only closes f.
func finish(f *os.File, err error, mode fs.FileMode) error {
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return ioError(err, "flush directory", dir)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return ioError(err, "flush directory", dir)
	}
	return nil
}

// addBlob stores the content of r and returns its digest and size. mode is 0755 for executables, else 0644.
func (l *Library) addBlob(ctx context.Context, name string, r io.Reader, mode fs.FileMode) (Artifact, error) {
	f, err := os.CreateTemp(l.tmpDir(), "blob-*")
	if err != nil {
		return Artifact{}, ioError(err, "store "+name, l.tmpDir())
	}
	defer os.Remove(f.Name()) // gone after the rename
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), &ctxReader{ctx, r})
	if err := finish(f, err, mode); err != nil {
		return Artifact{}, ioError(err, "store "+name, l.tmpDir())
	}
	a := Artifact{Name: name, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: n}
	return a, l.keep(f.Name(), a)
}

// addBlobAs stores the content of r if it has the size and the digest in want. It returns the actual size and digest.
func (l *Library) addBlobAs(ctx context.Context, want Artifact, r io.Reader) (Artifact, error) {
	f, err := os.CreateTemp(l.tmpDir(), "blob-*")
	if err != nil {
		return Artifact{}, ioError(err, "store "+want.Name, l.tmpDir())
	}
	defer os.Remove(f.Name()) // gone after the rename
	sum := sha256.New()
	out := &diskWriter{w: f}
	n, err := io.Copy(io.MultiWriter(out, sum), &ctxReader{ctx, r})
	closed := finish(f, err, 0o644)
	switch {
	case err != nil && out.err == nil && ctx.Err() == nil: // the source failed, not the disk
		return Artifact{}, fail.Wrap(fail.Unreachable, err, "read %s", want.Name)
	case closed != nil:
		return Artifact{}, ioError(closed, "store "+want.Name, l.tmpDir())
	}
	got := Artifact{Name: want.Name, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Size: n}
	if got != want {
		return got, nil
	}
	return got, l.keep(f.Name(), got)
}

// keep moves a finished, flushed file into the blob directory.
func (l *Library) keep(file string, a Artifact) error {
	if err := os.Rename(file, filepath.Join(l.blobDir(), hexOf(a.Digest))); err != nil {
		return ioError(err, "store "+a.Name, l.blobDir())
	}
	return syncDir(l.blobDir())
}

// addFile stores a file of the library's cache with the digest in a. It links the file if possible and copies it otherwise.
func (l *Library) addFile(ctx context.Context, a Artifact, file string, mode fs.FileMode) error {
	dst := filepath.Join(l.blobDir(), hexOf(a.Digest))
	if ok, err := sameFile(ctx, dst, a); err != nil || ok {
		return err
	}
	tmp := filepath.Join(l.tmpDir(), "link-"+hexOf(a.Digest))
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ioError(err, "store "+a.Name, tmp)
	}
	if os.Link(file, tmp) == nil {
		return l.keep(tmp, a)
	}
	f, err := os.Open(file)
	if err != nil {
		return ioError(err, "store "+a.Name, file)
	}
	defer f.Close() // read only
	got, err := l.addBlob(ctx, a.Name, f, mode)
	if err == nil && got.Digest != a.Digest {
		return fail.New(fail.Conflict, "%s changed while it was stored", a.Name).At(file)
	}
	return err
}

// sameFile reports whether path exists and has a's size and digest.
func sameFile(ctx context.Context, path string, a Artifact) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() != a.Size {
		return false, nil
	} else if err != nil {
		return false, ioError(err, "look at "+a.Name, path)
	}
	got, err := fileDigest(ctx, path)
	return got == a.Digest, err
}

func fileDigest(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, &ctxReader{ctx, f}); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// ctxReader ends reading when its context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
