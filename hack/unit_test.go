package hack_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

const unit = "../packaging/debian/naupegos-server.service"

// TestUnitIsSandboxed compares the verdict of systemd-analyze on the server's unit: its exposure is at most 4.0. systemd versions newer than Debian
// 12's check more; their text is not compared.
func TestUnitIsSandboxed(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", unit).Output()
	if err != nil {
		t.Fatalf("systemd-analyze is needed (apt-get install systemd): %v", err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	_, figure, _ := strings.Cut(string(lines[len(lines)-1]), "naupegos-server.service: ")
	var exposure float64
	if _, err := fmt.Sscan(figure, &exposure); err != nil || exposure > 4.0 {
		t.Errorf("the unit's exposure is %q: more than 4.0 (%v)", figure, err)
	}
	version := testkit.Value(exec.Command("systemd-analyze", "--version").Output())(t)
	if strings.HasPrefix(string(version), "systemd 252 ") {
		var text strings.Builder
		for _, l := range lines {
			fmt.Fprintln(&text, strings.TrimRight(string(l), " "))
		}
		testkit.Golden(t, "unit-security.golden", text.String())
	}
}
