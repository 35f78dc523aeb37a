//go:build integration

package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestDebiansKernel builds an image of Debian's present kernel, which it downloads.
func TestDebiansKernel(t *testing.T) {
	testkit.OnlyFull(t, "the unit tests choose and pack modules of a kernel that is written by hand; this downloads 70 MB")
	dir := os.Getenv("NAUPEGOS_DISCOVERY_TEST_CACHE")
	if dir == "" {
		dir = t.TempDir()
	}
	agent := filepath.Join(t.TempDir(), "agent")
	testkit.Must(t, os.WriteFile(agent, []byte("agent"), 0o755))
	image := testkit.Value(Build(t.Context(), Options{Agent: agent, Cache: dir, Newest: true}))(t)
	t.Logf("%+v", image.Info)
	if !strings.HasPrefix(image.Info.Kernel, "6.") || image.Info.Modules < 300 || image.InitrdSize < 5<<20 || image.InitrdSize > 60<<20 {
		t.Errorf("%+v", image.Info)
	}
	k := testkit.Value(readKernel(t.Context(), filepath.Join(dir, "kernel-"+image.Package[:16]+".deb"), Virtual))(t)
	deps, aliases := k.lists()
	for _, name := range []string{"virtio_net", "e1000", "e1000e", "ahci", "nvme", "sd_mod", "virtio_blk", "ext4", "vfat", "efivarfs"} {
		if !strings.Contains(string(deps), "/"+strings.ReplaceAll(name, "-", "_")+".ko:") {
			t.Errorf("the modules lack %s", name)
		}
	}
	if !strings.Contains(string(aliases), " virtio_net\n") {
		t.Error("nothing says which devices virtio_net is for")
	}
	again := testkit.Value(Build(t.Context(), Options{Agent: agent, Cache: dir}))(t)
	if again.Info != image.Info {
		t.Errorf("%+v is another image", again.Info)
	}
}
