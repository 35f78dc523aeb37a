package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// How long to wait for another process that writes to the library.
const (
	shortWait = time.Minute      // if the caller only registers or removes
	longWait  = 90 * time.Minute // if the other process may be compiling
	lockPoll  = 200 * time.Millisecond
)

// write takes the lock and removes the temporary files of killed processes.
func (l *Library) write(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	if unlock, err = l.lock(ctx, wait); err != nil {
		return nil, err
	}
	if err := l.cleanTmp(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// lock takes the library's write lock, which the kernel frees when the process ends, in any way.
func (l *Library) lock(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	path := filepath.Join(l.root, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, ioError(err, "lock bundle library", path)
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil // closing frees the lock
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close() // the lock's error counts
			return nil, ioError(err, "lock bundle library", path)
		}
		select {
		case <-ctx.Done():
			f.Close() // nothing was written
			return nil, ctx.Err()
		case <-deadline.C:
			f.Close() // nothing was written
			return nil, fail.New(fail.Conflict, "another process has been writing to the bundle library for %s", wait).At(path).
				Do("wait for the other naupegos to finish, or stop it")
		case <-tick.C:
		}
	}
}
