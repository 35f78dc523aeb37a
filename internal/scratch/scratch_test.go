package scratch

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

const killed = "NAUPEGOS_TEST_SCRATCH"

// TestWhatWasKilledIsRemoved has a process killed that holds a directory; the next one removes that, and none of a process that lives.
func TestWhatWasKilledIsRemoved(t *testing.T) {
	if parent := os.Getenv(killed); parent != "" {
		d := testkit.Value(Make(parent, "keys-"))(t)
		testkit.Must(t, os.WriteFile(filepath.Join(d.Path, "secret"), []byte("x"), 0o600))
		fmt.Println(d.Path)
		select {}
	}
	parent := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWhatWasKilledIsRemoved$")
	cmd.Env = append(os.Environ(), killed+"="+parent)
	out := testkit.Value(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := bufio.NewScanner(out)
	said.Scan()
	theirs := said.Text()

	mine := testkit.Value(Make(parent, "keys-"))(t)
	if _, err := os.Stat(filepath.Join(theirs, "secret")); err != nil {
		t.Fatalf("the directory of a process that lives is gone: %v", err)
	}
	testkit.Must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	other := testkit.Value(Make(parent, "keys-"))(t)
	if _, err := os.Stat(theirs); !os.IsNotExist(err) {
		t.Errorf("what a killed process has left is still there: %v", err)
	}
	if info := testkit.Value(os.Stat(mine.Path))(t); info.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v", info.Mode())
	}
	for _, d := range []*Dir{mine, other, other} {
		testkit.Must(t, d.Remove())
	}
	if left := testkit.Value(os.ReadDir(parent))(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
