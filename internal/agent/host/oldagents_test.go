package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestRemoveOldAgents(t *testing.T) {
	root := t.TempDir()
	dir := func(c string) string { return filepath.Join(root, machine.AgentDir, strings.Repeat(c, 64)) }
	past := time.Now().Add(-time.Hour)
	for _, c := range []string{"a", "b", "c", "d"} {
		write(t, Root(dir(c)), "/naupegos-agent", c)
		testkit.Must(t, os.Chtimes(dir(c), past, past))
	}
	testkit.Must(t, os.Chtimes(dir("d"), time.Now(), time.Now())) // in transfer
	other := filepath.Join(root, machine.AgentDir, "notes")
	write(t, Root(other), "/x", "a user's")
	testkit.Must(t, os.Chtimes(other, past, past))
	testkit.Must(t, os.MkdirAll(root+"/proc/77", 0o755))
	testkit.Must(t, os.Symlink(machine.AgentDir+"/"+strings.Repeat("c", 64)+"/naupegos-agent", root+"/proc/77/exe"))

	left := func() string {
		t.Helper()
		var names []string
		for _, d := range []string{dir("a"), dir("b"), dir("c"), dir("d"), other} {
			if _, err := os.Stat(d); err == nil {
				names = append(names, filepath.Base(d)[:1])
			}
		}
		return strings.Join(names, "")
	}
	testkit.Must(t, Root(root).RemoveOldAgents("/usr/bin/naupegos-agent"))
	if got := left(); got != "abcdn" {
		t.Errorf("a program that lies elsewhere removed some: %s are left", got)
	}
	testkit.Must(t, Root(root).RemoveOldAgents(dir("a")+"/naupegos-agent"))
	if got := left(); got != "acdn" { // itself, a running one, one in transfer, and a directory that is not an agent's
		t.Errorf("%s are left", got)
	}
	testkit.Must(t, Root(root).RemoveOldAgents(dir("a")+"/naupegos-agent"))
}
