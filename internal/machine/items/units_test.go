package items

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEscapePath compares names with those of systemd-escape, if the host has it, and with its recorded answers.
func TestEscapePath(t *testing.T) {
	for at, want := range map[string]string{
		"/":                     "-",
		"/mnt/my-data":          `mnt-my\x2ddata`,
		"/mnt/my-data/":         `mnt-my\x2ddata`,
		"/var//lib/longhorn":    "var-lib-longhorn",
		"/.hidden/.x":           `\x2ehidden-.x`,
		"/srv/ä b":              `srv-\xc3\xa4\x20b`,
		"/dev/disk/by-label/sw": `dev-disk-by\x2dlabel-sw`,
		"/mnt/a_b:c.d@e":        `mnt-a_b:c.d\x40e`,
	} {
		if got := EscapePath(at); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
		if tool, err := exec.LookPath("systemd-escape"); err == nil {
			if got := strings.TrimSpace(string(testkit.Value(exec.Command(tool, "--path", at).Output())(t))); got != want {
				t.Errorf("%s: systemd-escape says %s, want %s", at, got, want)
			}
		}
	}
}

// TestIsUnit: names of units from distributions and users.
func TestIsUnit(t *testing.T) {
	for _, name := range []string{"backup.service", "getty@tty1.service", `mnt-my\x2ddata.mount`, "swapfile.swap", "srv-nfs.automount", "-.mount", "user-1000.slice", "dev-sda.swap"} {
		if !IsUnit(name) {
			t.Errorf("%s is refused", name)
		}
	}
	for _, name := range []string{"", "backup", "backup.conf", ".service", `mnt-my\2ddata.mount`, `mnt-my\x2Ddata.mount`, `a\.service`, "a b.service", "a/b.service", "session-1.scope", "dev-sda.device", "x.service\n", "$(x).service"} {
		if IsUnit(name) {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestMisnamedUnit: reported faults of mounts that systemd refuses.
func TestMisnamedUnit(t *testing.T) {
	for _, c := range []struct{ name, content, problem, hint string }{
		{"backup.service", "[Service]\nExecStart=/bin/true\n", "", ""},
		{`mnt-my\x2ddata.mount`, "[Mount]\nWhat=/dev/sdb1\nWhere=/mnt/my-data\n", "", ""},
		{"mnt-my-data.mount", "[Mount]\nWhat=/dev/sdb1\nWhere=/mnt/my-data\n", "Where=/mnt/my-data", `call it mnt-my\x2ddata.mount`},
		{"disk.mount", "[Mount]\nWhat=/dev/sdb1\nWhere = /mnt/ \n", "Where=/mnt/", "call it mnt.mount"},
		{"mnt.mount", "[Mount]\nWhat=/dev/sdb1\n", "has no Where=", ""},
		{"mnt.mount", "[Mount]\nWhere=mnt\n", "not an absolute path", ""},
		{"mnt@.mount", "[Mount]\nWhere=/mnt/%i\n", "template", ""},
		{"run-x.mount", "[Mount]\nWhere=%t/x\n", "", ""},
		{"srv-nfs.automount", "[Automount]\nWhere=/srv/nfs\n[Install]\nWantedBy=multi-user.target\n", "", ""},
		{"swapfile.swap", "[Swap]\nWhat=/swapfile\n", "", ""},
		{"swap.swap", "[Swap]\nWhat=/swapfile\n", "What=/swapfile", "call it swapfile.swap"},
		{"swap.swap", "[Swap]\nWhat=UUID=0a1b\n", "", ""},
		{"mnt.mount", "", "", ""},
	} {
		problem, hint := MisnamedUnit(c.name, c.content)
		if (problem == "") != (c.problem == "") || !strings.Contains(problem, c.problem) || hint != c.hint && c.problem != "template" {
			t.Errorf("%s: %q (%q), want %q (%q)", c.name, problem, hint, c.problem, c.hint)
		}
	}
}
