//go:build integration

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestFrozenProcessesDie kills processes that a container runtime has frozen and not thawed.
func TestFrozenProcessesDie(t *testing.T) {
	const freezers = "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(freezers); err != nil {
		t.Skip("this host has cgroups of version 2 alone, in which frozen processes can be killed")
	}
	group := filepath.Join(freezers, fmt.Sprintf("naupegos-test-%d", os.Getpid()))
	below := filepath.Join(group, "kubepods", "pause")
	testkit.Must(t, os.MkdirAll(below, 0o755))
	t.Cleanup(func() {
		testkit.Must(t, os.WriteFile(filepath.Join(below, "freezer.state"), []byte("THAWED"), 0))
		testkit.Must(t, RemoveCgroups(context.Background(), []string{group}))
	})
	sleeper := exec.Command("sleep", "300")
	testkit.Must(t, sleeper.Start())
	ended := make(chan error, 1)
	go func() { ended <- sleeper.Wait() }()
	testkit.Must(t, os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0))
	testkit.Must(t, os.WriteFile(filepath.Join(below, "freezer.state"), []byte("FROZEN"), 0))
	testkit.Until(t, time.Minute, time.Millisecond, func() error {
		if state := strings.TrimSpace(string(testkit.Value(os.ReadFile(filepath.Join(below, "freezer.state")))(t))); state != "FROZEN" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.Must(t, KillCgroups(ctx, []string{group}))
	<-ended
}
