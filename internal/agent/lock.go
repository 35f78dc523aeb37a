package agent

import (
	"context"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// lock lets one run at a time change the host. The kernel drops it when the process ends, however it ends.
func (a *Agent) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(a.path(path.Dir(lockFile)), 0o700); err != nil {
		return nil, fileError(err, "take the agent's lock", lockFile)
	}
	f, err := os.OpenFile(a.path(lockFile), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fileError(err, "take the agent's lock", lockFile)
	}
	if err := a.flock(ctx, f); err != nil {
		_ = f.Close()
		return nil, err
	}
	// The holder's number is only for messages; the lock itself is the kernel's.
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	return func() { _ = f.Close() }, nil
}

// flock polls: flock(2) can't be given a deadline without signals.
func (a *Agent) flock(ctx context.Context, f *os.File) error {
	deadline := time.NewTimer(a.lockWait)
	defer deadline.Stop()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fail.Wrap(fail.Internal, err, "take the agent's lock").At(lockFile)
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.Interrupted, ctx.Err(), "wait for the agent's lock").At(lockFile)
		case <-deadline.C:
			holder, _ := os.ReadFile(f.Name())
			return fail.New(fail.Conflict, "another agent (process %s) has worked on this machine for more than %s",
				strings.TrimSpace(string(holder)), a.lockWait).At(lockFile).Do("wait for it to end, then try again")
		case <-poll.C:
		}
	}
}
