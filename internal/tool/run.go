package tool

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

// Run runs one of the host's programs and returns its standard output. Errors contain the last lines of standard error. When ctx ends, the
// program gets SIGTERM and, five seconds later, SIGKILL.
func Run(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout = stdin, &out
	err := Do(ctx, cmd)
	return out.String(), err
}

// Do is Run for a prepared command whose standard error is not set.
func Do(ctx context.Context, cmd *exec.Cmd) error {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if msg := LastLines(errs.String(), 4); msg != "" {
			return fmt.Errorf("%s: %w: %s", cmd.Args[0], err, msg)
		}
		return fmt.Errorf("%s: %w", cmd.Args[0], err)
	}
	return nil
}

// LastLines returns the last n non-empty lines of s, joined by " / ".
func LastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " / ")
}

// Until calls done every interval until it is true or fails, or ctx ends.
func Until(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Env is the environment of programs that need nothing of the user's.
func Env() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "GOCOVERDIR=") {
			env = append(env, kv)
		}
	}
	return env
}

// DiskFull reports whether an error means a full disk, by the kernel's error or a program's message.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || err != nil && strings.Contains(strings.ToLower(err.Error()), "no space left on device")
}
