package support

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"sync"
	"time"
)

// archive is a compressed tar file that is filled from several sides. Everything in it is redacted.
type archive struct {
	redactor *Redactor
	prefix   string
	now      time.Time

	mu  sync.Mutex
	zip *gzip.Writer
	tar *tar.Writer
}

func newArchive(w io.Writer, prefix string, r *Redactor) *archive {
	z := gzip.NewWriter(w)
	return &archive{redactor: r, prefix: prefix, now: time.Now(), zip: z, tar: tar.NewWriter(z)}
}

// add puts a file in.
func (a *archive) add(name string, data []byte) error {
	data = a.redactor.Redact(data)
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: path.Join(a.prefix, name), Mode: 0o600, Size: int64(len(data)), ModTime: a.now, Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	_, err = a.tar.Write(data)
	return err
}

// close completes the archive; the underlying writer stays open.
func (a *archive) close() error { return errors.Join(a.tar.Close(), a.zip.Close()) }
