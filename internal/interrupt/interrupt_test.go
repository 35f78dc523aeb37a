package interrupt

import (
	"context"
	"os"
	"syscall"
	"testing"
)

// TestOneReceiver: the first signal ends the context, unless a part of the process took the signals; a signal after the first one calls again.
func TestOneReceiver(t *testing.T) {
	again := make(chan struct{}, 1)
	ctx, s, stop := Listen(context.Background(), func() { again <- struct{}{} })
	defer stop()
	outer, giveOuter := Take(ctx)
	inner, giveInner := Take(ctx)
	send(t)
	<-inner
	giveInner()
	send(t)
	<-outer
	giveOuter()
	if len(inner) > 0 || ctx.Err() != nil {
		t.Error("a signal that one part took reached another, or the context")
	}
	if !s.Came() || !s.Taken() {
		t.Error("the signals are not counted")
	}
	send(t)
	<-again
	if ctx.Err() != nil {
		t.Error("a signal after others ends the context, not the process")
	}
}

// TestFirstEndsContext: without a taker the first signal ends the context, and the second one the process.
func TestFirstEndsContext(t *testing.T) {
	again := make(chan struct{}, 1)
	ctx, s, stop := Listen(context.Background(), func() { again <- struct{}{} })
	defer stop()
	if s.Came() {
		t.Error("a signal came before one was sent")
	}
	send(t)
	<-ctx.Done()
	send(t)
	<-again
	stop()
	if s.Taken() {
		t.Error("nothing took the signals")
	}
}

// TestWithoutListen: a part of a program without Listen gets the process's signals.
func TestWithoutListen(t *testing.T) {
	signals, give := Take(context.Background())
	defer give()
	send(t)
	if sig := <-signals; sig != syscall.SIGTERM {
		t.Error(sig)
	}
}

func send(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}
