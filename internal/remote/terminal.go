package remote

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/naupegos/naupegos/internal/fail"
)

// OpenTerminal makes a Terminal of this process's own files. If in is a terminal, it switches to raw mode and follows the terminal's size; restore
// undoes that and must be called.
func OpenTerminal(in, out, errOut *os.File) (t Terminal, restore func(), err error) {
	t = Terminal{In: in, Out: out, Err: errOut, Term: os.Getenv("TERM")}
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return t, func() {}, nil
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return t, func() {}, fail.Wrap(fail.Internal, err, "set up the terminal")
	}
	t.TTY, t.Size = true, sizeOf(out)
	changed, sizes, done := make(chan os.Signal, 1), make(chan Size), make(chan struct{})
	signal.Notify(changed, syscall.SIGWINCH)
	t.Resize = sizes
	go func() {
		for {
			select {
			case <-changed:
			case <-done:
				return
			}
			select {
			case sizes <- sizeOf(out):
			case <-done:
				return
			}
		}
	}()
	return t, func() {
		signal.Stop(changed)
		close(done)
		_ = term.Restore(int(in.Fd()), old) // no further remedy
	}, nil
}

func sizeOf(f *os.File) Size {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return Size{80, 24}
	}
	return Size{columns, rows}
}
