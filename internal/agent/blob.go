package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// blobTemp is the name prefix of blobs that are being received.
const blobTemp = ".put-"

// HasBlob reports whether the blob exists; a size other than 0 must match.
func (a *Agent) HasBlob(digest string, size int64) (bool, error) {
	if err := checkDigest(digest); err != nil {
		return false, err
	}
	info, err := os.Stat(a.blobPath(digest))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fileError(err, "look for the blob", blobFile(digest))
	}
	return info.Mode().IsRegular() && (size == 0 || info.Size() == size), nil
}

// PutBlob receives a blob. The blob gets its final name only when it is complete, its digest is correct and it has been synced to disk.
func (a *Agent) PutBlob(ctx context.Context, digest string, size int64, r io.Reader) error {
	if has, err := a.HasBlob(digest, size); err != nil || has {
		return err
	}
	dir := a.path(machine.BlobDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fileError(err, "receive a blob", machine.BlobDir)
	}
	a.sweepBlobs(dir)
	tmp := filepath.Join(dir, blobTemp+rand.Text())
	if err := receive(ctx, tmp, digest, size, r); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	if err := os.Rename(tmp, a.blobPath(digest)); err != nil {
		_ = os.Remove(tmp)
		return fileError(err, "put the blob in place", blobFile(digest))
	}
	return a.syncDirs(map[string]bool{dir: true})
}

// receive copies r to tmp and verifies it.
func receive(ctx context.Context, tmp, digest string, size int64, r io.Reader) (err error) {
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return fileError(err, "receive a blob", blobFile(digest))
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fileError(cerr, "receive a blob", blobFile(digest))
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(&paced{file: f}, sum), contextReader{ctx, r})
	if err != nil {
		if ctx.Err() != nil {
			return fail.Wrap(fail.Interrupted, ctx.Err(), "receive a blob").At(blobFile(digest))
		}
		return fileError(err, "receive a blob", blobFile(digest))
	}
	if size != 0 && n != size {
		return fail.New(fail.Unreachable, "received %d of %d bytes of a blob", n, size).At(blobFile(digest)).Do("the sender stopped early; send it again")
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fail.New(fail.Refused, "a blob that should be %s is %s", digest, got).At(blobFile(digest)).
			Do("it was damaged on its way or in the bundle: `naupegos bundle verify` reports which")
	}
	if err := f.Chmod(0o755); err != nil {
		return fileError(err, "receive a blob", blobFile(digest))
	}
	if err := f.Sync(); err != nil {
		return fileError(err, "receive a blob", blobFile(digest))
	}
	return nil
}

// paced writes to a file and limits the data in memory that waits for the disk, because etcd's next write may have to wait for all of it.
type paced struct {
	file  *os.File
	dirty int
}

// pace is the maximum number of waiting bytes.
const pace = 16 << 20

func (p *paced) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	if p.dirty += n; err == nil && p.dirty >= pace {
		p.dirty, err = 0, p.file.Sync()
	}
	return n, err
}

// sweepBlobs removes leftovers of aborted transfers. It is best effort, because they only waste space.
func (a *Agent) sweepBlobs(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), blobTemp) && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

var digestForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

func checkDigest(digest string) error {
	if !digestForm().MatchString(digest) {
		return fail.New(fail.Invalid, "%q is not a digest", digest).Do("write sha256: and 64 hexadecimal digits")
	}
	return nil
}

// contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
