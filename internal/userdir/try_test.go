package userdir

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPlaces: the places follow the environment, and one that it does not name is left out.
func TestAllPlaces(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{"HOME": dir, "XDG_CACHE_HOME": dir + "/c", "XDG_CONFIG_HOME": "", "XDG_RUNTIME_DIR": dir + "/r"} {
		t.Setenv(name, value)
	}
	want := []Place{{"cache", dir + "/c/naupegos"}, {"configuration", dir + "/.config/naupegos"}, {"runtime files", dir + "/r"}}
	if got := Places(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if got := Places(); !slices.Equal(got, want[2:]) {
		t.Errorf("without a home: %v", got)
	}
}

// TestTry tries directories that exist and that are missing, and leaves nothing behind.
func TestTry(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, Try(dir, 100_000))
	testkit.Must(t, Try(filepath.Join(dir, "new", "below"), 100_000))
	if left := testkit.Value(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	testkit.Fails(t, Try(filepath.Join(dir, "new"), 1<<60), fail.Refused, "no space left", "make room")
	file := filepath.Join(dir, "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	testkit.Fails(t, Try(file, 1), fail.Refused, "is not a directory")
	testkit.Fails(t, Try(filepath.Join(file, "below"), 1), fail.Refused, "not a directory")
	testkit.Fails(t, Try("/proc/naupegos", 1), fail.Refused, "/proc/naupegos")
}

// TestTryFullAndReadOnly tries a real file system that is full, and then read-only.
func TestTryFullAndReadOnly(t *testing.T) {
	if os.Getenv("TRY_INSIDE") == "" {
		again := exec.Command("unshare", "--user", "--map-root-user", "--mount", os.Args[0], "-test.run=^TestTryFullAndReadOnly$", "-test.v")
		again.Env = append(os.Environ(), "TRY_INSIDE=1")
		out, err := again.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestTryFullAndReadOnly") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("none", dir, "tmpfs", 0, "size=256k"))
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	testkit.Must(t, Try(dir, 64<<10))
	testkit.Fails(t, Try(dir, 1<<20), fail.Refused, dir, "no space left", "make room")
	if left := testkit.Value(os.ReadDir(dir))(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	testkit.Must(t, unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	testkit.Fails(t, Try(dir, 1), fail.Refused, dir, "read-only file system", "a disk that can be written")
	testkit.Fails(t, Try(filepath.Join(dir, "new"), 1), fail.Refused, "read-only file system")
}
