package host

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Pause stops all processes of a program (SIGSTOP), calls paused, and continues them (SIGCONT) when ctx ends, or after longest. A program may have no
// processes.
func (r Root) Pause(ctx context.Context, program string, longest time.Duration, paused func() error) error {
	ids, err := r.Processes(program)
	if err != nil {
		return err
	}
	all := func(sig unix.Signal) error {
		var errs []error
		for _, id := range ids {
			if err := unix.Kill(id, sig); err != nil && err != unix.ESRCH { // it may have ended
				errs = append(errs, fail.Wrap(fail.Refused, err, "send %s to process %d of %s", unix.SignalName(sig), id, program))
			}
		}
		return errors.Join(errs...)
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err = all(unix.SIGSTOP); err == nil {
		err = paused()
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, all(unix.SIGCONT))
}
