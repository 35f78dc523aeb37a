package plan

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interruptible turns the first SIGINT or SIGTERM into a closed soft channel (for Options.Stop) and the second into a cancelled hard context. stop
// restores signal handling and cancels hard; call it at the end.
func Interruptible(ctx context.Context) (soft <-chan struct{}, hard context.Context, stop func()) {
	hard, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
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
			signal.Stop(signals) // a third signal kills the process
			cancel()
		case <-hard.Done():
		}
	}()
	return asked, hard, func() {
		signal.Stop(signals)
		cancel()
	}
}
