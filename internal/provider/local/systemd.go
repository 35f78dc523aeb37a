package local

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/tool"
)

// slice is where machines' transient units lie on hosts whose pid 1 is systemd.
const slice = "naupegos.slice"

// hostSystemd reports whether this host's pid 1 is systemd (sd_booted(3)).
func hostSystemd() bool {
	info, err := os.Stat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// systemdRun starts argv as a transient service that gets its cgroup subtree delegated. It returns when the process runs. The slice that
// it lies in can't be removed meanwhile.
func systemdRun(ctx context.Context, unit, description string, argv []string) error {
	release, err := lockHost(ctx)
	if err != nil {
		return err
	}
	defer release()
	args := []string{
		"--quiet", "--collect", "--no-ask-password", "--unit=" + unit, "--slice=" + slice, "--description=" + description,
		"--property=Type=exec", "--property=Delegate=yes", "--property=KillMode=mixed", "--property=TasksMax=infinity",
		"--property=LimitNOFILE=1048576", "--property=OOMPolicy=continue",
	}
	_, err = tool.Run(ctx, nil, "systemd-run", append(append(args, "--"), argv...)...)
	return err
}

// removeUnits stops the transient units whose names match pattern. systemd forgets them then, failed or not (--collect).
func removeUnits(ctx context.Context, pattern string) error {
	if !hostSystemd() {
		return nil
	}
	out, err := tool.Run(ctx, nil, "systemctl", "list-units", "--all", "--plain", "--no-legend", "--full", pattern)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		unit, _, _ := strings.Cut(line, " ")
		if _, err := tool.Run(ctx, nil, "systemctl", "stop", unit); err != nil && !strings.Contains(err.Error(), "not loaded") {
			return err
		}
	}
	return nil
}

// removeEmptySlice removes the slice that holds all clusters' units, where none is left in it. Call it under the host's lock.
func removeEmptySlice(ctx context.Context) error {
	if !hostSystemd() {
		return nil
	}
	groups, err := names{}.inHierarchies(slice)
	if err != nil {
		return err
	}
	pids, err := cgroupPIDs(groups)
	if err != nil || len(pids) > 0 {
		return err
	}
	return removeUnits(ctx, slice)
}

// keepDescriptors makes sure that programs started from now on inherit only the descriptors that they are given. What the caller of this
// process left open besides (a terminal, a pipe that somebody reads to its end) would else stay open as long as a machine runs.
func keepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep inherited descriptors from machines: %w", err)
	}
	return nil
}

// supervisorCommand makes the command for a host without systemd: in a session of its own, so that neither the shell's end
// nor a signal from the terminal reaches it.
func supervisorCommand(argv []string, dir string, console *os.File) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = tool.Env()
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = detached()
	return cmd
}

// absolute makes the first word of argv a path, because a transient unit has no working directory of ours.
func absolute(argv []string) ([]string, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return append([]string{path}, argv[1:]...), nil
}
