package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

// ExitError means that a command on a machine ended with a status other than 0.
type ExitError struct {
	Command string // the program's name; arguments may be confidential
	Status  int    // -1 if a signal ended it, not 128 + the signal's number
	Stderr  string // the end of its standard error
}

// Error returns the command, its status and its message.
func (e *ExitError) Error() string {
	s := fmt.Sprintf("%s ended with status %d", e.Command, e.Status)
	if e.Stderr != "" {
		s += ": " + e.Stderr
	}
	return s
}

// Run runs one command on h as root and returns its standard output. A status other than 0 gives an *ExitError in the chain
// (kind fail.Internal); a connection that can't be made or breaks gives fail.Unreachable. Ending ctx ends the session.
func (d *Dialer) Run(ctx context.Context, h Host, stdin io.Reader, argv ...string) ([]byte, error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &limitedBuffer{limit: maxOutput, full: cancel}
	err := d.Stream(bounded, h, stdin, out, argv...)
	if out.over {
		return nil, fail.New(fail.Refused, "%s says more than %d MiB", argv[0], maxOutput>>20).At(h.where()).Do("look at the machine: another program answers there")
	}
	return out.Bytes(), err
}

// maxOutput is the maximum output that Run accepts from a machine.
const maxOutput = 16 << 20

// Stream runs one command on h as root and copies its output to stdout as it arrives (logs). Errors are like Run's.
func (d *Dialer) Stream(ctx context.Context, h Host, stdin io.Reader, stdout io.Writer, argv ...string) error {
	stderr := &tailWriter{limit: 4096}
	status, err := d.exec(ctx, h, stdin, stdout, stderr, argv)
	if err != nil {
		return err
	}
	if status != 0 {
		return fail.Wrap(fail.Internal, &ExitError{argv[0], status, stderr.String()}, "run a command").At(h.where())
	}
	return nil
}

// exec runs argv on h as root and returns its exit status. The error also says why a login ran no command.
func (d *Dialer) exec(ctx context.Context, h Host, stdin io.Reader, stdout io.Writer, stderr *tailWriter, argv []string) (int, error) {
	if before, known := d.wrong.Load(h.key()); known {
		return 0, before.(error) //nolint:forcetypeassert // only errors are stored
	}
	s, c, err := d.session(ctx, h)
	if err != nil {
		return 0, err
	}
	defer func() { <-c.sessions }()
	defer func() { _ = s.Close() }() // already closed when the command has ended
	b := newBeginning(stdout, stderr)
	var shut func()
	s.Stdout, s.Stderr, shut = gates(b.out(), b.err())
	defer shut()
	feeding, fed := context.WithCancel(ctx) // a login that ends without a question leaves no feeder behind
	defer fed()
	refused, err := d.feedBegun(feeding, h, s, stdin, b)
	if err != nil {
		return 0, fail.Wrap(fail.Unreachable, err, "open standard input").At(h.where())
	}
	stop := context.AfterFunc(ctx, func() {
		_ = s.Signal(ssh.SIGTERM)
		_ = s.Close()
	})
	defer stop()
	if err := s.Start(d.wrap(h, argv)); err != nil {
		return 0, lost(ctx, c, err)
	}
	status, err := d.waitBegun(ctx, c, s, b, stderr)
	if b.hasBegun() || err != nil {
		return status, err
	}
	if err := refused(); err != nil {
		return 0, err
	}
	err = loginError(h, status, b.said(), stderr.String())
	if b.refusedPassword() { // more attempts could lock the account (pam_faillock)
		d.wrong.Store(h.key(), err)
	}
	return 0, err
}

// waitBegun waits for the command's end. It abandons a login that does not reach the command within the time limit of logins.
func (d *Dialer) waitBegun(ctx context.Context, c *conn, s *ssh.Session, b *beginning, stderr *tailWriter) (int, error) {
	late := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for from := time.Now(); ; from = b.answeredAt(from) { // a user may take time to type a password
			left := time.NewTimer(time.Until(from.Add(d.o.LoginTimeout)))
			select {
			case <-left.C:
			case <-watching.Done():
				left.Stop()
				return
			}
			if b.hasBegun() {
				return
			}
			if !b.answeredAt(from).After(from) {
				close(late)
				_ = s.Close()
				return
			}
		}
	}()
	status, err := wait(ctx, c, s, late)
	select {
	case <-late:
		return 0, fail.Wrap(fail.Refused, &LoginError{status, oneLine(lastOf(stderr.String(), headLimit) + "\n" + b.said())}, "the login did not run the command within %s", d.o.LoginTimeout).At(c.host.where()).
			Do("a profile or rc file of the user may wait for input, or sudo for a second factor or a name server")
	default:
	}
	return status, err
}

// feed copies stdin in the background. Session.Stdin is unsuitable: Wait would then wait for a reader that may never end after the command has ended.
func feed(s *ssh.Session, stdin io.Reader) error {
	if stdin == nil {
		return nil
	}
	w, err := s.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		// A command may end without reading all its input: its status is the outcome.
		_, _ = io.Copy(w, stdin)
		_ = w.Close()
	}()
	return nil
}

// wait waits for the command's end, the connection's, or for late to be closed.
func wait(ctx context.Context, c *conn, s *ssh.Session, late <-chan struct{}) (int, error) {
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-late:
		return 0, nil
	case <-ctx.Done():
		return 0, lost(ctx, c, ctx.Err())
	}
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case ctx.Err() != nil:
		return 0, lost(ctx, c, ctx.Err())
	case errors.As(err, &exit) && exit.Signal() != "":
		return -1, nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	}
	return 0, lost(ctx, c, err)
}

// lost returns the error of a session that ended without a status.
func lost(ctx context.Context, c *conn, err error) error {
	if ctx.Err() != nil {
		return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "run a command").At(c.host.where())
	}
	if why := c.reason(); why != nil {
		err = why
	}
	return fail.Wrap(fail.Unreachable, err, "the connection was lost while a command ran").At(c.host.where())
}

// DialContext opens a connection from h to addr; network is "tcp" or "unix". Closing it keeps the SSH connection.
func (d *Dialer) DialContext(ctx context.Context, h Host, network, addr string) (net.Conn, error) {
	for try := 0; ; try++ {
		c, err := d.connect(ctx, h)
		if err != nil {
			return nil, err
		}
		conn, err := await(ctx, c, func() (net.Conn, error) { return c.Dial(network, addr) })
		if err == nil {
			return conn, nil
		}
		var refused *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			return nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "connect to %s through %s", addr, h.where())
		case errors.As(err, &refused) && refused.Reason == ssh.Prohibited:
			return nil, fail.Wrap(fail.Refused, err, "connect to %s through %s", addr, h.where()).
				Do("sshd there forbids user %s to forward connections: check AllowTcpForwarding and PermitOpen in sshd_config, options such as restrict in authorized_keys, and "+
					"whether the user's password has expired", h.user())
		case errors.As(err, &refused) || try > 0:
			return nil, fail.Wrap(fail.Unreachable, err, "connect to %s through %s", addr, h.where())
		}
		c.close(err)
	}
}

// quote makes any POSIX shell parse exactly argv.
func quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		if words[i] = a; a == "" || strings.ContainsFunc(a, needsQuote) {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

func needsQuote(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,", r)
}
