//go:build integration && openstack

package bundle

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A bundle with addons contains every blob of the plain one, and images whose programs start and find their libraries.
func TestOpenStackAddons(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root: it runs chroot")
	}
	ctx := context.Background()
	l, plain := theBundle(t)
	b, err := l.Build(ctx, BuildOptions{Kubernetes: plain.Manifest.Kubernetes, Addons: []string{AddonOpenStack}, Progress: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Verify(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	again, err := l.Build(ctx, BuildOptions{Kubernetes: plain.Manifest.Kubernetes, Addons: []string{AddonOpenStack}})
	if err != nil || again.ID != b.ID {
		t.Errorf("built again it is %v, %v; was %s", again, err, b.ID)
	}
	for set, want := range map[string]string{"": plain.ID, AddonOpenStack: b.ID} {
		got, err := l.Find(ctx, plain.Manifest.Kubernetes, strings.Fields(set)...)
		if err != nil || got.ID != want {
			t.Errorf("Find %q: %v, %v, want %s", set, got, err, want)
		}
	}
	for _, i := range plain.Manifest.Images {
		if !slices.ContainsFunc(b.Manifest.Images, func(x Image) bool { return x.ID == i.ID && x.Archive == i.Archive }) {
			t.Errorf("image %s is not that of the plain bundle", i.Name)
		}
	}
	if !slices.Equal(b.Manifest.Binaries, plain.Manifest.Binaries) {
		t.Error("the executables are not those of the plain bundle")
	}
	t.Logf("%d MiB, of which the plain bundle is %d", b.Size()>>20, plain.Size()>>20)
	for image, programs := range map[string][]string{
		ImageOpenStackCCM:  {ImageOpenStackCCM + " --version"},
		ImageCinderCSI:     {"cinder-csi-plugin --version", "csi-provisioner --version", "csi-attacher --version", "csi-resizer --version"},
		ImageCinderCSINode: {"cinder-csi-plugin --version", "csi-registrar -h", "mount --version", "umount --version", "findmnt --version", "udevadm --version", "blkid --version", "blockdev --version", "mkfs.ext4 -V", "fsck.ext4 -V", "dumpe2fs -V", "resize2fs", "tune2fs", "mkfs.xfs -V", "xfs_repair -V", "xfs_io -V", "xfs_growfs -V", "fsck --version"},
	} {
		runIn(t, unpackImage(t, b, image), programs)
	}
}

// runIn runs programs in a root directory. They must start and print something; their exit status does not count.
func runIn(t *testing.T, root string, commands []string) {
	t.Helper()
	for _, c := range commands {
		said, _ := exec.Command("chroot", append([]string{root}, strings.Fields(c)...)...).CombinedOutput() // some can't succeed without arguments
		out := string(said)
		for _, bad := range []string{"failed to run command", "error while loading", "Exec format"} {
			if strings.Contains(out, bad) || out == "" {
				t.Errorf("%s: %s", c, out)
			}
		}
		line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
		t.Logf("%s: %s", c, line)
	}
}

// unpackImage unpacks an image of the bundle into a directory.
func unpackImage(t *testing.T, b *Bundle, name string) string {
	t.Helper()
	i, err := b.Image(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run(t, "tar", "-xf", b.Path(i.Archive.Digest), "-C", dir)
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(blobs, func(a, b string) int { return int(size(t, b) - size(t, a)) })
	run(t, "tar", "-xf", blobs[0], "-C", root) // the layer is by far the largest
	return root
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
