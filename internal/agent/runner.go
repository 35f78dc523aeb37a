package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Runner runs one program to its end.
type Runner interface {
	// Run returns standard output. It returns a *CommandError if the program fails.
	Run(ctx context.Context, stdin io.Reader, argv ...string) ([]byte, error)
}

// CommandError is the failure of a program.
type CommandError struct {
	Argv   []string
	Code   int    // exit status; -1 if a signal ended it
	Stderr string // the end of its standard error
}

// Error returns the command, its status and its message.
func (e *CommandError) Error() string {
	s := fmt.Sprintf("%s: exit status %d", strings.Join(e.Argv, " "), e.Code)
	if e.Stderr != "" {
		s += ": " + e.Stderr
	}
	return s
}

// Exec is the Runner on real machines.
type Exec struct{}

// Run implements Runner. When ctx ends, Run ends the program with SIGTERM, and with SIGKILL five seconds later.
func (Exec) Run(ctx context.Context, stdin io.Reader, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.Stdin = stdin
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out, errout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errout
	err := cmd.Run()
	if ctx.Err() != nil {
		return out.Bytes(), fmt.Errorf("%s: %w", argv[0], ctx.Err())
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.Bytes(), &CommandError{Argv: argv, Code: exit.ExitCode(), Stderr: tail(errout.String(), 1000)}
	}
	return out.Bytes(), err
}

// tail returns the last n bytes of s, trimmed.
func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) > n {
		s = "…" + strings.ToValidUTF8(s[len(s)-n:], "")
	}
	return s
}
