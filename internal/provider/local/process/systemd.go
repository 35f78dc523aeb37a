package process

import (
	"context"
	"os"
	"strings"

	"github.com/naupegos/naupegos/internal/tool"
)

// Slice is the slice of machines' transient units on hosts whose pid 1 is systemd.
const Slice = "naupegos.slice"

// HasSystemd reports whether this host's pid 1 is systemd (sd_booted(3)).
func HasSystemd() bool {
	info, err := os.Stat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// StartUnit starts argv as a transient service with a delegated cgroup subtree. It returns when the process runs.
// Call it under the host's lock, so that no other command removes the service's slice meanwhile.
func StartUnit(ctx context.Context, unit, description string, argv []string) error {
	args := []string{
		"--quiet", "--collect", "--no-ask-password", "--unit=" + unit, "--slice=" + Slice, "--description=" + description,
		"--property=Type=exec", "--property=Delegate=yes", "--property=KillMode=mixed", "--property=TasksMax=infinity",
		"--property=LimitNOFILE=1048576", "--property=OOMPolicy=continue",
	}
	_, err := tool.Run(ctx, nil, "systemd-run", append(append(args, "--"), argv...)...)
	return err
}

// RemoveUnits stops the transient units whose names match pattern. systemd then unloads them, failed or not (--collect).
func RemoveUnits(ctx context.Context, pattern string) error {
	if !HasSystemd() {
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

// removeEmptySlice removes the slice of all clusters' units, if no process is left in it.
func removeEmptySlice(ctx context.Context) error {
	if !HasSystemd() {
		return nil
	}
	groups, err := InHierarchies(Slice)
	if err != nil {
		return err
	}
	pids, err := PIDs(groups)
	if err != nil || len(pids) > 0 {
		return err
	}
	return RemoveUnits(ctx, Slice)
}
