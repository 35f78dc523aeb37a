//go:build integration

package local

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestBootTimes reports how long it takes from a machine's start to SSH, for one machine and for seven at once.
func TestBootTimes(t *testing.T) {
	n := 6
	if s := os.Getenv("NAUPEGOS_TEST_MACHINES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t, "itest-b007b007", nil)
	if err := r.p.makeLayers(t.Context(), silent{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.apply(wanted(0))
	t.Logf("one machine: %v", time.Since(began).Round(time.Millisecond))
	r.destroy()
	began = time.Now()
	r.apply(wanted(n))
	t.Logf("%d machines at once: %v", n+1, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	t.Logf("%s: cpu %s", "w-1", r.ssh("w-1", "cat /sys/fs/cgroup/cpuacct/cpuacct.usage; systemd-analyze blame | head -12; free -m | head -2"))
	t.Logf("ssh took %v", time.Since(began))
}
