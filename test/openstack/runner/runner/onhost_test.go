//go:build integration || openstack

package runner

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// sweepAfter removes what a failed test's runner with these options left on this host; a test that passes leaves nothing. Call it before starting
// runners, so that they have stopped when the cleanup runs.
func sweepAfter(t *testing.T, o Options, ids []string) {
	t.Helper()
	t.Cleanup(func() {
		if len(onHost(t, ids)) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		r, err := Start(ctx, o)
		if err != nil {
			t.Errorf("sweep this host: %v", err)
			return
		}
		if err := r.Stop(ctx); err != nil {
			t.Errorf("sweep this host: %v", err)
		}
		if left := onHost(t, ids); len(left) > 0 {
			t.Errorf("still there:\n%s", strings.Join(left, "\n"))
		}
	})
}

// start starts a runner in this process. The runner stops with the test unless the test stops it earlier.
func start(t *testing.T, o Options) (stop func() error) {
	t.Helper()
	r, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		return r.Stop(ctx)
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// onHost lists the objects on this host whose names contain one of ids.
func onHost(t *testing.T, ids []string) (out []string) {
	t.Helper()
	for _, command := range []string{
		"ip -o link", "ip -4 -o addr", "ip route show table all", "nft list ruleset", "cat /proc/self/mountinfo", "ps -eo args",
		"find /sys/fs/cgroup -type d", "find /run /var/lib/naupegos/local -maxdepth 3",
	} {
		f := strings.Fields(command)
		text, err := exec.Command(f[0], f[1:]...).CombinedOutput()
		if err != nil && f[0] != "find" { // files vanish while find runs
			t.Fatalf("%s: %v: %s", command, err, text)
		}
		for line := range strings.Lines(string(text)) {
			for _, id := range ids {
				if strings.Contains(line, id) {
					out = append(out, f[0]+": "+strings.TrimSpace(line))
				}
			}
		}
	}
	return out
}
