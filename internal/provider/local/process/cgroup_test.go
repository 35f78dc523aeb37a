package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestProcessesThatStay: a cancelled waiter reports an interruption; a waiter whose deadline passes lists the remaining processes.
func TestProcessesThatStay(t *testing.T) {
	group := t.TempDir()
	sleeper := exec.Command("sleep", "60") // killed, and a zombie that stays in the list
	testkit.Must(t, sleeper.Start())
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	testkit.Must(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0o600))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	for want, ctx := range map[fail.Kind]context.Context{fail.Interrupted: cancelled, fail.NotReady: late} {
		if err := KillCgroups(ctx, []string{group}); fail.KindOf(err) != want {
			t.Errorf("want %s: %v", want, err)
		}
	}
}
