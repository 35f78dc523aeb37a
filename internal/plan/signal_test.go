package plan

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestInterruptible(t *testing.T) {
	soft, hard, stop := Interruptible(t.Context())
	defer stop()
	me, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []<-chan struct{}{soft, hard.Done()} {
		if err := me.Signal([]os.Signal{os.Interrupt, syscall.SIGTERM}[i]); err != nil {
			t.Fatal(err)
		}
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatalf("signal %d had no effect", i+1)
		}
		if i == 0 && hard.Err() != nil {
			t.Error("the first signal cancelled")
		}
	}
}
