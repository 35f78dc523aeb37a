package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "lock")
	release, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path); fail.KindOf(err) != fail.Conflict {
		t.Errorf("taken twice: %v", err)
	}
	release()
	again, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestProcessIdentity(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, _, err := procStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	p := process{PID: cmd.Process.Pid, Start: start, Boot: boot}
	if !p.alive() {
		t.Error("a running process is not alive")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := tool.Until(ctx, time.Millisecond, func() (bool, error) { return !p.alive(), nil }); err != nil {
		t.Error("a killed process that nobody has waited for is alive")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("sleep ended well")
	}
	if (process{}).alive() {
		t.Error("the zero process is alive")
	}
}

func TestConsoleIsBounded(t *testing.T) {
	dir := t.TempDir()
	c, err := openConsole(consoleFile(dir), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := c.Write([]byte("\x1b[0;32m  OK  \x1b[0m line " + strings.Repeat("x", 60) + "\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write([]byte("the last line\n")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{consoleFile(dir), consoleFile(dir) + ".1"} {
		if info, err := os.Stat(f); err != nil || info.Size() > 1000 {
			t.Errorf("%v %v", info, err)
		}
	}
	if tail := consoleTail(dir, 1); tail != "the last line" {
		t.Errorf("tail %q", tail)
	}
	if tail := consoleTail(dir, 2); strings.ContainsAny(tail, "\x1b\r") {
		t.Errorf("tail %q has escapes", tail)
	}
}

func TestWriteFileReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"old", "new"} {
		if err := writeFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestCopyStore(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	for path, text := range map[string]string{"blobs/a": "blob", "meta.db": "database"} {
		if err := os.MkdirAll(filepath.Join(from, filepath.Dir(path)), 0o751); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, path), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(from, "blobs/link")); err != nil {
		t.Fatal(err)
	}
	if err := copyStore(from, to); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "meta.db"), []byte("changed"), 0o640); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(from, "meta.db"))
	if err != nil || string(data) != "database" {
		t.Errorf("writing to the copy changed the original: %q %v", data, err)
	}
	if target, err := os.Readlink(filepath.Join(to, "blobs/link")); err != nil || target != "a" {
		t.Errorf("%q %v", target, err)
	}
	a, err := os.Stat(filepath.Join(from, "blobs/a"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.Stat(filepath.Join(to, "blobs/a"))
	if err != nil || !os.SameFile(a, b) {
		t.Errorf("a blob was copied, not linked: %v", err)
	}
}
