//go:build integration

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestIgnitionValidate: Ignition's own validator accepts the rendered configuration, and refuses a copy with a fault.
func TestIgnitionValidate(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "ignition-validate")
	testkit.Must(t, testkit.Required("", tool, "github.com/coreos/ignition/v2/validate"))
	validate := func(data []byte) (string, error) {
		file := filepath.Join(t.TempDir(), "config.ign")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), tool, file).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	for name, o := range userData() {
		data, err := Ignition(o)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := validate(data); err != nil || out != "" {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if out, err := validate([]byte(strings.Replace(string(data), "/etc/hostname", "etc/hostname", 1))); err == nil {
			t.Errorf("%s: a relative path is accepted: %s", name, out)
		}
		packed, err := o.Render(KindIgnition)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := validate(packed); err != nil || out != "" {
			t.Errorf("%s, compressed: %v: %s", name, err, out)
		}
		if out, err := validate([]byte(strings.Replace(string(packed), "gzip", "zip", 1))); err == nil {
			t.Errorf("%s: an unknown compression is accepted: %s", name, out)
		}
	}
}

// TestConsoleUnit runs the unit's script with a file in place of the console.
func TestConsoleUnit(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pub")
	if err := os.WriteFile(key, []byte(publicKey+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(hostKeysUnit, "ExecStart=/bin/sh -c '")
	command, _, _ = strings.Cut(command, "'\n")
	// Replace systemd's escapes, and paths by those of the test.
	command = strings.NewReplacer(`\\`, `\`, "%%", "%", "$$", "$", "/etc/ssh/ssh_host_ed25519_key.pub", key, "/dev/console", filepath.Join(dir, "console")).Replace(command)
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "console"))
	want := "\n-----BEGIN SSH HOST KEY KEYS-----\n" + publicKey + "\n-----END SSH HOST KEY KEYS-----\n"
	if err != nil || string(got) != want {
		t.Errorf("%v: %q, want %q", err, got, want)
	}
	unit := filepath.Join(dir, "naupegos-host-keys.service")
	if err := os.WriteFile(unit, []byte(hostKeysUnit), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "naupegos-host-keys") { // it also warns about the host's own units
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}
