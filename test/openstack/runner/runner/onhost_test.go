//go:build integration || openstack

package runner

import (
	"os/exec"
	"strings"
	"testing"
)

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
