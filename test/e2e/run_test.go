//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// result is the result of a run of the command.
type result struct {
	args   []string
	code   int // exit status; -1 if a signal ended the command
	stdout string
	stderr string
	took   time.Duration
}

func (r result) String() string {
	return "naupegos " + strings.Join(r.args, " ") + ": exit status " + itoa(r.code) + "\n" + r.stdout + r.stderr
}

// invocation describes how to run naupegos.
type invocation struct {
	bin     string        // default built.bin
	env     []string      // in addition to this process's environment
	stdin   string        //
	timeout time.Duration // default 5 minutes
	wrap    []string      // command line before naupegos' own: unshare, setpriv
}

// naupegos runs the command and returns its result, within a time limit. Any goroutine may call it: if the command can't be started, the test has
// failed and the exit status is -1.
func naupegos(t testing.TB, i invocation, args ...string) result {
	t.Helper()
	if i.bin == "" {
		i.bin = built.bin
	}
	if i.timeout == 0 {
		i.timeout = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), i.timeout)
	defer cancel()
	argv := append(append(append([]string{}, i.wrap...), i.bin), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), "NO_COLOR=1"), i.env...)
	cmd.Stdin = strings.NewReader(i.stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	err := cmd.Run()
	r := result{args: args, stdout: out.String(), stderr: errs.String(), took: time.Since(began)}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	default:
		t.Errorf("run %s: %v", strings.Join(argv, " "), err)
		r.code = -1
	}
	if ctx.Err() != nil {
		t.Errorf("not done after %v: %v", i.timeout, r)
	}
	return r
}

// until polls condition every interval and fails the test with its last error if it never succeeds.
func until(t testing.TB, limit, interval time.Duration, condition func() error) {
	t.Helper()
	testkit.Until(t, limit, interval, condition)
}

// extract unpacks a tar archive, compressed or not, into dir.
func extract(archive, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if out, err := exec.Command("tar", "-C", dir, "-xf", archive).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", archive, err, out)
	}
	return nil
}
