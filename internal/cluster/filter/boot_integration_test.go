//go:build integration

package filter

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBootOrder: the real systemd finds no cycle among our unit, cloud-init's and those of networks, with the ordering that they have in Debian and Ubuntu.
func TestBootOrder(t *testing.T) {
	const early = "DefaultDependencies=no\nConflicts=shutdown.target\nBefore=shutdown.target\n"
	service := func(text string) string {
		return "[Unit]\nDescription=x\n" + text + "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
	}
	for name, network := range map[string]string{
		"networkd": early + "After=network-pre.target\nBefore=network.target\nWants=network.target\n",
		"ifupdown": early + "After=local-fs.target network-pre.target\nBefore=network.target network-online.target\nWants=network.target\n",
	} {
		dir := t.TempDir()
		for unit, text := range map[string]string{
			unitName:                   testkit.Value(Config(params(t)))(t).Units[0].Content,
			"test-network.service":     service(network),
			"nftables.service":         service(early + "Wants=network-pre.target\nBefore=network-pre.target\n"),
			"cloud-init-local.service": service(early + "After=systemd-remount-fs.service\nBefore=network-pre.target sysinit.target\nWants=network-pre.target\n"),
			"cloud-init.service":       service(early + "Wants=cloud-init-local.service test-network.service\nAfter=cloud-init-local.service test-network.service\nBefore=sysinit.target network-online.target\n"),
			"test.target": "[Unit]\nDescription=all\nRequires=sysinit.target basic.target cloud-init.service cloud-init-local.service nftables.service test-network.service " + unitName +
				"\nAfter=sysinit.target basic.target\n",
			"sysinit.target.d/test.conf": "[Unit]\nWants=cloud-init.service cloud-init-local.service\n",
		} {
			testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, unit)), 0o755))
			testkit.Must(t, os.WriteFile(filepath.Join(dir, unit), []byte(text), 0o644))
		}
		cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", filepath.Join(dir, "test.target"))
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		out, _ := cmd.CombinedOutput() // it speaks of the host's own units too
		if strings.Contains(string(out), "ordering cycle") || strings.Contains(string(out), "naupegos") {
			t.Errorf("%s: systemd-analyze verify:\n%s", name, out)
		}
	}
}
