//go:build integration

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// TestMachineHasBundle boots a machine from an image with a bundle: blobs and agent in place, and containerd, started on
// the machine's copy of the store, knows every image without importing any.
func TestMachineHasBundle(t *testing.T) {
	b := bundletest.Any(t)
	r := newRig(t, func(o *Options) { o.Bundle, o.ImageRoot = b, filepath.Join(filepath.Dir(o.Root), "images") })
	began := time.Now()
	if err := r.p.layers().Make(t.Context(), noted{t}); err != nil {
		t.Fatal(err)
	}
	t.Logf("image prepared in %v", time.Since(began).Round(time.Millisecond))
	r.apply(wanted(2))
	sum, err := rootfs.FileDigest(r.p.opts.AgentBinary)
	if err != nil {
		t.Fatal(err)
	}
	r.ssh("w-1", "test -x "+filepath.Join(machine.AgentDir, sum, "naupegos-agent"))
	for _, a := range b.Manifest.Binaries {
		r.ssh("w-1", "test -x "+filepath.Join(machine.BlobDir, rootfs.Hex(a.Digest)))
	}
	containerd, err := b.Binary("containerd")
	if err != nil {
		t.Fatal(err)
	}
	ctr, err := b.Binary("ctr")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w-1", "w-2"} {
		r.ssh(name, "systemd-run -q -p Type=notify "+filepath.Join(machine.BlobDir, rootfs.Hex(containerd.Digest)))
		images := r.ssh(name, filepath.Join(machine.BlobDir, rootfs.Hex(ctr.Digest))+" -n k8s.io images check -q")
		for _, i := range b.Manifest.Images {
			if !strings.Contains(images, i.Ref) {
				t.Errorf("%s: containerd does not have %s complete: %s", name, i.Ref, images)
			}
		}
		list := r.ssh(name, filepath.Join(machine.BlobDir, rootfs.Hex(ctr.Digest))+" -n k8s.io images ls")
		if n := strings.Count(list, "io.cri-containerd.pinned=pinned"); n != len(b.Manifest.Images) {
			t.Errorf("%s: %d of %d images are pinned: kubelet may throw the others away", name, n, len(b.Manifest.Images))
		}
	}
	image := b.Manifest.Images[0].Ref
	t.Log(r.ssh("w-1", filepath.Join(machine.BlobDir, rootfs.Hex(ctr.Digest))+" -n k8s.io images ls | head -3; "+
		filepath.Join(machine.BlobDir, rootfs.Hex(ctr.Digest))+" -n k8s.io snapshots ls | head -5; echo "+image))
	if err := r.p.Power(t.Context(), "w-2", "off"); err != nil {
		t.Fatal(err)
	}
	if removed, err := r.p.PruneImages(t.Context(), 0); err != nil || len(removed) > 0 {
		t.Errorf("pruned images that are in use: %v %v", removed, err)
	}
	r.destroy()
	r.p.opts.Bundle = nil
	if removed, err := r.p.PruneImages(t.Context(), layers.Rest); err != nil || len(removed) > 0 {
		t.Errorf("pruned images that were used a moment ago: %v %v", removed, err)
	}
	if removed, err := r.p.PruneImages(t.Context(), 0); err != nil || len(removed) != 1 {
		t.Errorf("pruned %v (%v), want the bundle's layer", removed, err)
	}
	if _, err := os.Stat(b.Path(containerd.Digest)); err != nil {
		t.Error("pruning took the bundle's own blob with it")
	}
}
