//go:build integration

package hack_test

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/naupegos/naupegos/internal/testkit"
)

//go:embed testdata/fresh.sh
var leftovers string

// TestFresh runs hack/fresh on an isolated host with namespaces of all kinds that contain leftovers of Naupegos, and with similar objects of others.
func TestFresh(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test makes name spaces: run it as root")
	}
	script, err := filepath.Abs("fresh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	group, kind := cgroup(t)
	// The shell enters its group before it unshares, so that the group becomes the root of the hierarchy that it sees.
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		`echo $$ >"$1/cgroup.procs" && exec unshare --mount --net --pid --ipc --cgroup --fork --kill-child --mount-proc bash -c "$2" leftovers "$3"`,
		"sh", group, leftovers, kind)
	cmd.Stdin = strings.NewReader(string(text))
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.HasSuffix(string(out), "as it should be\n") {
		t.Fatalf("%s", out)
	}
}

// cgroup creates a group for the test in one of the host's hierarchies, and returns its directory and the type that mounts the hierarchy.
func cgroup(t *testing.T) (dir, kind string) {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		freezer := m.FSType == "cgroup" && strings.HasSuffix(m.VFSOptions, "freezer")
		if !freezer && m.FSType != "cgroup2" {
			continue
		}
		kind = "-t cgroup2"
		if freezer {
			kind = "-t cgroup -o freezer"
		}
		if dir, err = os.MkdirTemp(m.Mountpoint, "naupegos-fresh-test-"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			testkit.Until(t, 10*time.Second, 50*time.Millisecond, func() error { // until the last process in it has ended
				return exec.Command("find", dir, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+").Run()
			})
		})
		return dir, kind
	}
	t.Fatal("this host has no cgroup hierarchy for the test")
	return "", ""
}
