package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Lock takes the advisory lock on path, waiting as long as ctx allows. The returned function releases it;
// the kernel does so when the holder dies.
func Lock(ctx context.Context, path string) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = tool.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		f.Close()
		if errors.Is(err, context.Canceled) {
			return nil, fail.Wrap(fail.Interrupted, err, "wait for the lock that another naupegos holds").At(path)
		}
		return nil, fail.Wrap(fail.Conflict, err, "wait for the lock that another naupegos holds").At(path)
	}
	return func() { f.Close() }, nil
}
