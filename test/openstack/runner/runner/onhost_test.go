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

// sweepAfter has nothing of a runner with these options stay on this host after the test, however it ends. Of a test that passes
// nothing stays anyway. Call it before runners are started: these must have ended by then.
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

// start starts a runner in this process, which ends with the test unless the test stops it before.
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

// onHost lists what on this host carries one of the names in its own.
func onHost(t *testing.T, ids []string) (out []string) {
	t.Helper()
	for _, command := range []string{
		"ip -o link", "ip -4 -o addr", "ip route show table all", "nft list ruleset", "cat /proc/self/mountinfo", "ps -eo args",
		"find /sys/fs/cgroup -type d", "find /run /var/lib/naupegos/local -maxdepth 3",
	} {
		f := strings.Fields(command)
		text, err := exec.Command(f[0], f[1:]...).CombinedOutput()
		if err != nil && f[0] != "find" { // things vanish while it looks
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
