// Package interrupt receives SIGINT and SIGTERM in one place of a process, and gives them to the one part of it that they concern.
//
// It knows nothing of commands and of what they do.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// Signals are the SIGINTs and SIGTERMs of a process.
type Signals struct {
	cancel context.CancelFunc
	again  func()

	mu     sync.Mutex
	takers []chan os.Signal // the last one gets the next signal
	came   bool
	taken  bool
}

// key is that of the Signals in a context.
type key struct{}

// Listen returns a context that ends with the first signal. Each further one calls again. Signals go to the last taker instead while there is one:
// see Take. stop ends the listening, and the context.
func Listen(ctx context.Context, again func()) (_ context.Context, s *Signals, stop func()) {
	s = &Signals{again: again}
	ctx, s.cancel = context.WithCancel(context.WithValue(ctx, key{}, s))
	in, over := make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(in, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case sig := <-in:
				s.receive(sig)
			case <-over:
				return
			}
		}
	}()
	return ctx, s, sync.OnceFunc(func() {
		signal.Stop(in)
		close(over)
		s.cancel()
	})
}

func (s *Signals) receive(sig os.Signal) {
	s.mu.Lock()
	former := s.came
	s.came = true
	if n := len(s.takers); n > 0 {
		select {
		case s.takers[n-1] <- sig:
		default: // it has more than it looks at
		}
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if former {
		s.again()
		return
	}
	s.cancel()
}

// Came reports whether a signal came.
func (s *Signals) Came() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came
}

// Taken reports whether some part of the process ever took the signals: something may have been done then.
func (s *Signals) Taken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// Take gives signals to the caller until it calls give: they do not end the context of Listen meanwhile. A context without Listen gives the process's.
func Take(ctx context.Context) (signals <-chan os.Signal, give func()) {
	c := make(chan os.Signal, 4)
	s, _ := ctx.Value(key{}).(*Signals)
	if s == nil {
		signal.Notify(c, os.Interrupt, syscall.SIGTERM)
		return c, func() { signal.Stop(c) }
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takers, s.taken = append(s.takers, c), true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.takers = slices.DeleteFunc(s.takers, func(t chan os.Signal) bool { return t == c })
	}
}
