//go:build integration

package cluster

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/handover"
)

// TestHandoverSSH checks that ssh itself reads the configuration in the directory of the handover.
func TestHandoverSSH(t *testing.T) {
	l := handoverLab(t)
	files, err := l.Handover(t.Context(), HandoverOptions{Now: handoverDay})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := handover.Write(dir, "demo", files, handoverDay, false); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ssh", "-F", handover.SSHConfigFile, "-G", "demo-cp-1")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ssh -G: %v: %s", err, out)
	}
	for _, want := range []string{"hostname 10.0.0.22\n", "proxyjump demo-gw-1\n", "identityfile id_ed25519\n", "userknownhostsfile known_hosts\n", "stricthostkeychecking true\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	keygen := exec.CommandContext(t.Context(), "ssh-keygen", "-y", "-f", filepath.Join(dir, handover.KeyFile))
	public, err := keygen.Output()
	if err != nil || strings.Join(strings.Fields(string(public))[:2], " ") != strings.TrimSpace(string(files[handover.KeyFile+".pub"])) {
		t.Errorf("the pair does not belong together: %v: %s", err, public)
	}
}
