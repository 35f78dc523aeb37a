package hosts

import (
	"context"
	"io"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// Runner runs a command on a host.
type Runner interface {
	Run(ctx context.Context, h remote.Host, stdin io.Reader, argv ...string) ([]byte, error)
}

// Reach checks over SSH whether machines run, and shuts them down. It works for machines of any provider.
type Reach struct {
	Run      Runner
	Patience time.Duration // pause before a second attempt, which is made only if the first failed within this time
}

// Ask checks whether a machine accepts our login. If it refuses at once, Ask tries once more, because its SSH server may be restarting.
func (r Reach) Ask(ctx context.Context, h remote.Host) error {
	began := time.Now()
	err := r.once(ctx, h)
	if fail.KindOf(err) != fail.Unreachable || time.Since(began) > r.Patience {
		return err
	}
	timer := time.NewTimer(r.Patience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return err
	case <-timer.C:
	}
	return r.once(ctx, h)
}

func (r Reach) once(ctx context.Context, h remote.Host) error {
	_, err := r.Run.Run(ctx, h, nil, "true")
	return err
}

// Judge derives a machine's state from the result of Ask. A machine that refuses the login counts as running: later work on it reports the
// reason.
func Judge(err error) (state provider.State, detail string) {
	switch {
	case err == nil:
		return provider.Running, ""
	case fail.KindOf(err) == fail.Unreachable:
		return provider.Unreachable, err.Error()
	}
	return provider.Running, err.Error()
}

// pause is the time between two polls of a machine that shuts down.
const pause = 200 * time.Millisecond

// ShutDown shuts a machine down through its own systemd, and waits until it no longer answers.
func (r Reach) ShutDown(ctx context.Context, h remote.Host) error {
	if _, err := r.Run.Run(ctx, h, nil, "systemctl", "poweroff"); err != nil && fail.KindOf(err) != fail.Unreachable {
		return err
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for silent := 0; silent < 2; { // one failure may only be a lost connection
		if fail.KindOf(r.once(ctx, h)) == fail.Unreachable {
			silent++
		} else {
			silent = 0
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "wait until the host is off").At(h.Name)
		case <-tick.C:
		}
	}
	return nil
}
