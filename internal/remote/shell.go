package remote

import (
	"context"
	"io"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

// Terminal is the user's end of Shell.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	TTY      bool        // request a terminal on the other side
	Term     string      // $TERM; empty means xterm
	Size     Size        // at the start
	Resize   <-chan Size // later; may be nil
}

// Size is a terminal's size in characters.
type Size struct{ Columns, Rows int }

// Shell runs the login shell of h's user, or lets it interpret command, as that user (not through sudo), and returns the exit status.
func (d *Dialer) Shell(ctx context.Context, h Host, t Terminal, command string) (int, error) {
	s, c, err := d.session(ctx, h)
	if err != nil {
		return 0, err
	}
	defer func() { <-c.sessions }()
	defer func() { _ = s.Close() }() // already closed when the shell has ended
	var shut func()
	s.Stdout, s.Stderr, shut = gates(t.Out, t.Err)
	defer shut()
	if err := feed(s, t.In); err != nil {
		return 0, fail.Wrap(fail.Unreachable, err, "open standard input").At(h.where())
	}
	if t.TTY {
		if t.Term == "" {
			t.Term = "xterm"
		}
		modes := ssh.TerminalModes{ssh.ECHO: 1, ssh.TTY_OP_ISPEED: 38400, ssh.TTY_OP_OSPEED: 38400}
		if err := s.RequestPty(t.Term, t.Size.Rows, t.Size.Columns, modes); err != nil {
			return 0, fail.Wrap(fail.Unreachable, err, "ask for a terminal").At(h.where())
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if command == "" {
		err = s.Shell()
	} else {
		err = s.Start(command)
	}
	if err != nil {
		return 0, lost(ctx, c, err)
	}
	done := make(chan struct{})
	defer close(done)
	go resize(s, t.Resize, done)
	return wait(ctx, c, s, nil)
}

// resize forwards changes of the window's size until done.
func resize(s *ssh.Session, sizes <-chan Size, done <-chan struct{}) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = s.WindowChange(size.Rows, size.Columns) // only affects the appearance
		case <-done:
			return
		}
	}
}
