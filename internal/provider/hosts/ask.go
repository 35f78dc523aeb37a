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

// Reach asks machines by SSH whether they run, and shuts them down: whatever else is known of them.
type Reach struct {
	Run      Runner
	Patience time.Duration // until a machine that refuses at once is asked again
}

// Ask asks a machine whether it lets us in. One that refuses at once is asked once more: its SSH server may just be restarting.
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

// Judge says what the answer to Ask tells of a machine. One that lets nobody in runs all the same: whoever works on it learns why.
func Judge(err error) (state provider.State, detail string) {
	switch {
	case err == nil:
		return provider.Running, ""
	case fail.KindOf(err) == fail.Unreachable:
		return provider.Unreachable, err.Error()
	}
	return provider.Running, err.Error()
}

// pause is the time between two looks at a machine that shuts down.
const pause = 200 * time.Millisecond

// ShutDown shuts a machine down through its own systemd, and waits until it does not answer any more.
func (r Reach) ShutDown(ctx context.Context, h remote.Host) error {
	if _, err := r.Run.Run(ctx, h, nil, "systemctl", "poweroff"); err != nil && fail.KindOf(err) != fail.Unreachable {
		return err
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for silent := 0; silent < 2; { // the first time it may only be the end of a connection
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
