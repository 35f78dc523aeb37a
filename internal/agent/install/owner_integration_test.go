//go:build integration

package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOwners: Owners reads the owner of a disk's system from the file system of its state partition.
func TestOwners(t *testing.T) {
	program := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(testkit.Value(run(context.Background(), "", "", args[0], args[1:]...))(t))
	}
	for name, c := range map[string]struct {
		made func(t *testing.T, state string)
		want Owner
	}{
		"installed": {func(t *testing.T, state string) {
			program("mke2fs", "-q", "-F", "-t", "ext4", state)
			dir := t.TempDir()
			undo := testkit.Value(mount(state, dir, "ext4", 0))(t)
			testkit.Must(t, SaveIdentity(dir, Identity{UUID: "b7f5f93a-b029-475f-b3a4-479ba198cb8a", Key: testkit.Value(facts.NewKey())(t)}))
			testkit.Must(t, undo())
		}, "b7f5f93a-b029-475f-b3a4-479ba198cb8a"},
		"cut off before its identity": {func(_ *testing.T, state string) { program("mke2fs", "-q", "-F", "-t", "ext4", state) }, Unknown},
		"no file system":              {func(*testing.T, string) {}, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			root, image := host.Root(t.TempDir()), filepath.Join(t.TempDir(), "state")
			testkit.Must(t, os.WriteFile(image, nil, 0o600))
			testkit.Must(t, os.Truncate(image, 64<<20))
			loop := program("losetup", "--find", "--show", image)
			t.Cleanup(func() { program("losetup", "--detach", loop) })
			testkit.Must(t, os.MkdirAll(root.Path("/sys/block/sda/sda3"), 0o755))
			testkit.Must(t, os.WriteFile(root.Path("/sys/block/sda/sda3/uevent"), []byte("PARTNAME="+slots.NameState+"\n"), 0o644))
			testkit.Must(t, os.MkdirAll(root.Path("/dev"), 0o755))
			testkit.Must(t, os.Symlink(loop, root.Path("/dev/sda3")))
			c.made(t, loop)
			if got := Owners(root, filepath.Join(t.TempDir(), "mnt"))(facts.Disk{Path: "/dev/sda", Holds: []string{"gpt"}}); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if got := Owners(host.Root(t.TempDir()), t.TempDir())(facts.Disk{Path: "/dev/sda", Holds: []string{"gpt", "ext"}}); got != Foreign {
		t.Errorf("%q", got)
	}
}
