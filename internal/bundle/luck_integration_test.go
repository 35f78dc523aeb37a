//go:build integration

package bundle

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// A library on a disk of 4 MiB.
func smallDisk(t *testing.T) *Library {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: it mounts a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	l, err := OpenLibrary(filepath.Join(dir, "library"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFullDisk(t *testing.T) {
	ctx, from, to := context.Background(), newLibrary(t), smallDisk(t)
	big, err := from.addBlob(ctx, "big", bytes.NewReader(filler(6<<20)), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	b, err := from.register(ctx, Manifest{Schema: 1, Kubernetes: "v1.36.3", Platform: hostPlatform(), Binaries: []Artifact{big}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = to.Import(ctx, bytes.NewReader(export(t, from, b.ID)), "")
	wantKind(t, err, fail.Refused, "big", "no space left", "free space")
	_, err = to.Build(ctx, BuildOptions{Kubernetes: release.Default})
	wantKind(t, err, fail.Refused, "MiB are free")
	for _, dir := range []string{to.manifestDir(), to.blobDir(), to.tmpDir()} {
		if left := names(t, dir); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
	small := addBundle(t, to, "v1.36.3", "") // the library is usable again
	if err := to.Verify(ctx, small.ID); err != nil {
		t.Error(err)
	}
}

func TestTwoBuildsAtOnce(t *testing.T) {
	l, b := theBundle(t)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			other, err := OpenLibrary(l.Root())
			if err != nil {
				t.Error(err)
				return
			}
			got, err := other.Build(context.Background(), BuildOptions{Kubernetes: b.Manifest.Kubernetes})
			if err != nil || got.ID != b.ID {
				t.Errorf("got %v, %v, want %s", got, err, b.ID)
			}
		})
	}
	wait.Wait()
}

const helperRoot = "NAUPEGOS_TEST_COMPILE_INTO"

// TestCompileHelper is the process that TestKilledBuild kills.
func TestCompileHelper(t *testing.T) {
	root := os.Getenv(helperRoot)
	if root == "" {
		t.Skip("runs only as a process of TestKilledBuild")
	}
	l, err := OpenLibrary(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.write(context.Background(), time.Second); err != nil {
		t.Fatal(err)
	}
	g, err := newGoTool(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	g.env = append(g.env, "GOCACHE="+root+"/gocache")
	if _, err := l.compile(context.Background(), g, testRecipe(t).cniPlugins(), &reporter{to: func(e Event) { fmt.Println("phase", e.Phase) }}); err != nil {
		t.Fatal(err)
	}
}

func TestKilledBuild(t *testing.T) {
	l := newLibrary(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestCompileHelper$", "-test.v")
	cmd.Env = append(os.Environ(), helperRoot+"="+l.Root())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	compiles := false
	for s := bufio.NewScanner(out); !compiles && s.Scan(); {
		compiles = strings.Contains(s.Text(), "phase "+PhaseCompile)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the process state shows how it ended
	if !compiles || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("it was not killed while it compiled: it said so is %v, and it ended with %s", compiles, cmd.ProcessState)
	}
	if left := names(t, l.tmpDir()); len(left) == 0 {
		t.Fatal("a killed build leaves nothing to clean up")
	}
	// The go command that it started ends a moment later, and could still write.
	ended := testkit.That("the go command has ended with the build", func() bool { return !compiling(t, l.Root()) })
	testkit.Until(t, time.Minute, 100*time.Millisecond, ended)
	if left := names(t, l.cacheDir()); len(left) > 0 {
		t.Errorf("counted as done: %v", left)
	}
	unlock, err := l.write(context.Background(), 10*time.Second) // the kernel freed the lock
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if left := names(t, l.tmpDir()); len(left) > 0 {
		t.Errorf("not cleaned up: %v", left)
	}
}

// compiling reports whether the working directory of any process is below root.
func compiling(t *testing.T, root string) bool {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if at, err := os.Readlink(l); err == nil && strings.HasPrefix(at, root) {
			return true
		}
	}
	return false
}
