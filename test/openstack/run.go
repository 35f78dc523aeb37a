package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// evidence is the directory for the services' logs after a failed command, relative to the working directory.
var evidence = filepath.Join(".evidence", "openstack")

// runOn runs a command with the bed running, and stops the bed afterwards if it did not run before.
func runOn(ctx context.Context, o bed.Options, command []string) (err error) {
	if len(command) == 0 {
		return fail.New(fail.Invalid, "run what?").Do("openstack run COMMAND [ARGUMENT]...")
	}
	b, giveBack, err := bed.Borrow(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack()) }()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		err = fail.Wrap(fail.Internal, err, "run %s", command[0])
		return errors.Join(err, saveLogs(b.LastLogs()))
	}
	return nil
}

func saveLogs(logs map[string]string) error {
	if err := os.MkdirAll(evidence, 0o755); err != nil {
		return err
	}
	for name, text := range logs {
		if err := os.WriteFile(filepath.Join(evidence, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "openstack: what the services have said last is in", evidence)
	return nil
}
