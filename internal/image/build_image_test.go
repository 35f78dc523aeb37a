//go:build image

package image

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// built is the image under test: made once, or named by NAUPEGOS_TEST_IMAGE.
var built struct {
	file   string
	bundle *bundle.Bundle
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("/var/tmp", "naupegos-image-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if built.file = os.Getenv("NAUPEGOS_TEST_IMAGE"); built.file == "" {
		built.file = filepath.Join(dir, "disk.raw")
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// theImage makes the image. Before the first time, it starts a run that is stopped half-way.
func theImage(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("making images needs root")
	}
	built.bundle = bundletest.Any(t)
	if _, err := os.Stat(built.file); err == nil {
		return built.file
	}
	agent, err := filepath.Abs("../../bin/naupegos-agent")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Bundle: built.bundle, Agent: agent, Version: "test", Output: built.file, Format: Raw, Progress: noted{t}}
	stopped, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if _, err := Build(stopped, o); fail.KindOf(err) != fail.NotReady {
		t.Fatalf("an image in 5 s, or another error: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(built.file)); err != nil || len(left) > 0 {
		t.Fatalf("the stopped run left %v, %v", left, err)
	}
	began := time.Now()
	info, err := Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("made in %v: %+v", time.Since(began).Round(time.Second), *info)
	return built.file
}

type noted struct{ t *testing.T }

func (n noted) Status(format string, args ...any) { n.t.Logf("  "+format, args...) }

// command runs a program, which must succeed, and returns its standard output.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// TestDisk checks the disk with its own checkers, and the content of its file systems.
func TestDisk(t *testing.T) {
	disk := theImage(t)
	var table struct {
		PartitionTable struct {
			Label      string
			Partitions []struct {
				Node, Type  string
				Start, Size int64
			}
		}
	}
	if err := json.Unmarshal([]byte(command(t, "sfdisk", "--json", disk)), &table); err != nil {
		t.Fatal(err)
	}
	if n := len(table.PartitionTable.Partitions); table.PartitionTable.Label != "gpt" || n != 3 {
		t.Errorf("%+v", table)
	}
	if out := command(t, "sfdisk", "--verify", disk); !strings.Contains(out, "No errors detected") {
		t.Error(out)
	}
	root := fmt.Sprintf("%s?offset=%d", disk, rootStart)
	command(t, "e2fsck", "-fn", root)
	esp := filepath.Join(t.TempDir(), "esp")
	command(t, "dd", "if="+disk, "of="+esp, "bs=1M", fmt.Sprintf("skip=%d", espStart/mib), fmt.Sprintf("count=%d", espSize/mib), "status=none")
	command(t, "fsck.vfat", "-n", esp)
	for _, f := range []string{"BOOT/BOOTX64.EFI", "BOOT/grubx64.efi", "debian/shimx64.efi", "debian/grubx64.efi", "debian/grub.cfg"} {
		command(t, "mtype", "-i", esp, "::EFI/"+f)
	}
	look(t, root)
}

// look asserts that the root file system has everything that a machine needs, and nothing that it must not have.
func look(t *testing.T, root string) {
	t.Helper()
	debugfs := func(request string) string { return command(t, "debugfs", "-R", request, root) }
	list := func(dir string) []string {
		var names []string
		for line := range strings.Lines(debugfs("ls -p " + dir)) {
			if f := strings.Split(line, "/"); len(f) > 5 && f[5] != "." && f[5] != ".." {
				names = append(names, f[5])
			}
		}
		return names
	}
	blobs := list(machine.BlobDir)
	content := list(machine.ContainerdRoot + "/io.containerd.content.v1.content/blobs/sha256")
	for _, a := range built.bundle.Manifest.Binaries {
		if !slices.Contains(blobs, rootfs.Hex(a.Digest)) {
			t.Errorf("the image lacks %s", a.Name)
		}
	}
	for _, i := range built.bundle.Manifest.Images {
		if !slices.Contains(content, rootfs.Hex(i.ID)) {
			t.Errorf("containerd's store lacks %s", i.Ref)
		}
	}
	if agents := list(machine.AgentDir); len(agents) != 1 || !slices.Contains(list(machine.AgentDir+"/"+agents[0]), "naupegos-agent") {
		t.Errorf("agents: %v", agents)
	}
	if out := debugfs("cat /etc/machine-id"); out != "" {
		t.Errorf("machine ID %q: every machine would have it", out)
	}
	for _, f := range list("/etc/ssh") {
		if strings.HasPrefix(f, "ssh_host_") {
			t.Errorf("%s: every machine would have it", f)
		}
	}
	if apt := list("/etc/apt/apt.conf.d"); slices.Contains(apt, "99mmdebstrap") {
		t.Error("this host's apt settings are in the image")
	}
	for line := range strings.Lines(debugfs("cat /etc/shadow")) {
		if f := strings.Split(line, ":"); len(f) > 1 && f[1] != "*" && !strings.HasPrefix(f[1], "!") {
			t.Errorf("account %s has a password, or needs none", f[0])
		}
	}
}
