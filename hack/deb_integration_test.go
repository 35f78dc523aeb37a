//go:build integration

package hack_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/testkit"
)

// makeDeb builds the Debian package and returns its path.
func makeDeb(t *testing.T) string {
	build := exec.Command("make", "--no-print-directory", "deb")
	build.Dir = ".."
	build.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=") // this test may run below another make
	var log bytes.Buffer
	build.Stderr = &log
	out, err := build.Output()
	if err != nil {
		t.Fatalf("make deb: %v: %s%s", err, out, log.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return filepath.Join("..", lines[len(lines)-1])
}

// TestDebInstalls builds the package like make deb and installs it in a separate Debian system: systemd can read the unit, the unit's command serves,
// and purging leaves nothing but the server's state. If lintian is available, it finds nothing wrong with the package.
func TestDebInstalls(t *testing.T) {
	testkit.OnlyFull(t, "TestDeb looks into a package of small programs; this one makes a Debian to install a real one on")
	deb := makeDeb(t)
	root := filepath.Join(t.TempDir(), "root")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	testkit.Must(t, rootfs.Debian{Suite: "bookworm", Packages: []string{"systemd", "ca-certificates"}}.Directory(ctx, t.TempDir(), root))
	testkit.Must(t, os.WriteFile(filepath.Join(root, "naupegos.deb"), testkit.Value(os.ReadFile(deb))(t), 0o644))
	testkit.Must(t, syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""))
	t.Cleanup(func() { testkit.Must(t, syscall.Unmount(filepath.Join(root, "proc"), syscall.MNT_DETACH)) })
	in := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "chroot", append([]string{root}, args...)...).CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := in(args...)
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return out
	}
	if path, err := exec.LookPath("lintian"); err == nil {
		if out, err := exec.CommandContext(ctx, path, "--fail-on", "error,warning", "--tag-display-limit", "0", deb).CombinedOutput(); err != nil {
			t.Errorf("lintian: %v: %s", err, out)
		}
	} else {
		t.Log("lintian is not installed: it was not asked")
	}
	must("dpkg", "--install", "/naupegos.deb")
	if got := must("naupegos", "version"); !strings.Contains(got, "naupegos") {
		t.Errorf("it says of itself %q", got)
	}
	must("systemd-analyze", "verify", "--man=no", "/lib/systemd/system/naupegos-server.service")
	if _, err := in("systemctl", "is-enabled", "naupegos-server"); err == nil {
		t.Error("to install it is to enable its server")
	}
	must("systemctl", "enable", "naupegos-server")

	serve(t, root, in)
	if out := must("dpkg", "--purge", "naupegos"); !strings.Contains(out, "/var/lib/naupegos stays") {
		t.Errorf("it does not say what stays: %s", out)
	}
	for path, stays := range map[string]bool{
		"usr/bin/naupegos": false, "etc/default/naupegos-server": false, "etc/systemd/system/multi-user.target.wants/naupegos-server.service": false,
		"var/lib/naupegos/server": true,
	} {
		if _, err := os.Lstat(filepath.Join(root, path)); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// serve runs the server like its unit, until it is known to work.
func serve(t *testing.T, root string, in func(...string) (string, error)) {
	t.Helper()
	unit := string(testkit.Value(os.ReadFile(filepath.Join(root, "lib/systemd/system/naupegos-server.service")))(t))
	_, rest, _ := strings.Cut(unit, "\nExecStart=")
	line, _, _ := strings.Cut(rest, "\n")
	testkit.Must(t, os.MkdirAll(filepath.Join(root, "var/lib/naupegos/server"), 0o700)) // systemd would create it as StateDirectory
	args := append([]string{root}, strings.Fields(strings.Replace(line, "$NAUPEGOS_SERVER_OPTIONS", "--listen-http 127.0.0.1:0 --listen-https 127.0.0.1:0", 1))...)
	cmd := exec.Command("chroot", args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	testkit.Must(t, cmd.Start())
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	testkit.Until(t, 3*time.Minute, 200*time.Millisecond, func() error {
		out, err := in("naupegos", "server", "status", "--state-dir", "/var/lib/naupegos/server")
		if err != nil {
			return fail.Wrap(fail.NotReady, err, "%s", out)
		}
		return nil
	})
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	if ended = true; cmd.Wait() != nil {
		t.Errorf("the server ended otherwise: %s", log.String())
	}
}
