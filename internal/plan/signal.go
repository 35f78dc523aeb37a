package plan

import (
	"context"

	"github.com/naupegos/naupegos/internal/interrupt"
)

// Interruptible turns the first SIGINT or SIGTERM into a closed soft channel (for Options.Stop) and the second into a cancelled hard context. stop
// gives the signals back and cancels hard; call it at the end.
func Interruptible(ctx context.Context) (soft <-chan struct{}, hard context.Context, stop func()) {
	signals, give := interrupt.Take(ctx)
	hard, cancel := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() {
		select {
		case <-signals:
			close(asked)
		case <-hard.Done():
			return
		}
		select {
		case <-signals:
			give() // a third signal ends the process
			cancel()
		case <-hard.Done():
		}
	}()
	return asked, hard, func() {
		give()
		cancel()
	}
}
