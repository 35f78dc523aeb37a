package layers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestMountTable(t *testing.T) {
	hybrid := []process.Hierarchy{
		{Mount: "/sys/fs/cgroup/cpu"}, {Mount: "/sys/fs/cgroup/memory"}, {Mount: "/sys/fs/cgroup/systemd", Systemd: true},
		{Mount: "/sys/fs/cgroup/unified", Unified: true},
	}
	testkit.Golden(t, "mounts-hybrid.golden", mountTable(hybrid))
	testkit.Golden(t, "mounts-v2.golden", mountTable([]process.Hierarchy{{Mount: "/sys/fs/cgroup", Unified: true}}))
}

// TestUnitsVerify checks our units with systemd if it is installed; the integration tests boot with them anyway.
func TestUnitsVerify(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	for name, text := range map[string]string{"naupegos-prepare.service": prepareUnit, "naupegos-cloud-final.timer": cloudFinalTimer, "naupegos-cloud-final.service": cloudFinal} {
		testkit.Golden(t, name+".golden", text)
		dir := t.TempDir()
		for other, text := range map[string]string{"naupegos-cloud-final.service": cloudFinal, name: text} {
			text = strings.ReplaceAll(text, "/usr/bin/cloud-init", "/bin/true") // not installed here
			if err := os.WriteFile(filepath.Join(dir, other), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", filepath.Join(dir, name)).CombinedOutput()
		if err != nil || strings.Contains(string(out), "naupegos") { // it also reports problems of the host's own units
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestTweaksApplyTwice(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"etc/systemd/system/multi-user.target.wants", "etc/ssh"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	haproxy := filepath.Join(root, "etc/systemd/system/multi-user.target.wants/haproxy.service")
	hostKey := filepath.Join(root, "etc/ssh/ssh_host_rsa_key")
	for _, f := range []string{haproxy, hostKey} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := baseTweaks(nil).Apply(root); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{haproxy, hostKey} {
		if _, err := os.Lstat(f); err == nil {
			t.Errorf("%s is still there", f)
		}
	}
	if target, err := os.Readlink(filepath.Join(root, "etc/systemd/system/systemd-udevd.service")); err != nil || target != "/dev/null" {
		t.Errorf("udev is not masked: %s %v", target, err)
	}
	data, err := os.ReadFile(filepath.Join(root, sysctlDir, "vm.overcommit_memory"))
	if err != nil || string(data) != "1\n" {
		t.Errorf("%q %v", data, err)
	}
}
