package images

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// send uploads the file's data.
func (s *Service) send(ctx context.Context, want Image, id string, progress plan.Progress) error {
	f, err := os.Open(want.File)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "read the image")
	}
	defer f.Close() // read only
	body := &uploadMeter{f: f, size: want.Size, progress: progress}
	if err := imagedata.Upload(ctx, s.c.Image, id, body).ExtractErr(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return fail.Wrap(fail.KindOf(cause), cause, "upload %s, %d of %d MiB", want.File, body.sent.Load()>>20, want.Size>>20)
		}
		return cloud.Wrap(err, "upload %s, %d of %d MiB", want.File, body.sent.Load()>>20, want.Size>>20)
	}
	return nil
}

// undoTime bounds the removal of a partial image.
const undoTime = 30 * time.Second

// undo removes an image that could not be completed, even if the run was stopped.
func (s *Service) undo(ctx context.Context, id string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if undone := s.delete(ctx, id); undone != nil {
		return errors.Join(err, fail.Wrap(fail.KindOf(undone), undone, "remove the half-made image").At(id).
			Do("the same command, run again, completes it"))
	}
	return err
}

// uploadMeter reports the progress of an upload. It can be rewound, because a token may have expired.
type uploadMeter struct {
	f        *os.File
	size     int64
	sent     atomic.Int64 // atomic, because a cancelled call may still read
	progress plan.Progress
}

// Read implements io.Reader.
func (m *uploadMeter) Read(p []byte) (int, error) {
	n, err := m.f.Read(p)
	if sent := m.sent.Add(int64(n)); n > 0 {
		m.progress.Status("uploading: %d of %d MiB", sent>>20, m.size>>20)
	}
	return n, err
}

// Seek implements io.Seeker.
func (m *uploadMeter) Seek(offset int64, whence int) (int64, error) {
	at, err := m.f.Seek(offset, whence)
	if err == nil {
		m.sent.Store(at)
	}
	return at, err
}

var _ io.ReadSeeker = (*uploadMeter)(nil)
