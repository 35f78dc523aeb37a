package layers

import (
	"context"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// agentLayer holds the agent's binary in machine.AgentDir, named after its digest.
func (s Stack) agentLayer() (Layer, error) {
	sum, err := s.AgentDigest()
	if err != nil {
		return Layer{}, fail.Wrap(fail.Refused, err, "read the agent's binary").At(s.AgentBinary).Do("build it: make build")
	}
	build := func(_ context.Context, dir string, _ plan.Progress) error {
		return rootfs.PlaceAgent(s.AgentBinary, sum, filepath.Join(dir, "root"))
	}
	return Layer{Name: "agent-" + sum[:16], Title: "agent " + sum[:12], build: build}, nil
}

// bundleRecipe must change whenever the same bundle would give a different layer.
const bundleRecipe = "bundle 2"

// bundleLayer holds the bundle's blobs in machine.BlobDir and, next to the root, containerd's store with all images of the bundle imported and
// unpacked.
func (s Stack) bundleLayer() Layer {
	b := s.Bundle
	build := func(ctx context.Context, dir string, progress plan.Progress) error {
		if err := rootfs.PlaceBlobs(b, rootfs.Artifacts(b.Manifest), filepath.Join(dir, "root")); err != nil {
			return err
		}
		// temporary files are next to the layer, where the next run finds those of an interrupted one
		return rootfs.ImageStore(ctx, b, filepath.Join(dir, storeDir), filepath.Dir(dir), progress)
	}
	return Layer{Name: "bundle-" + files.Digest(bundleRecipe, b.ID)[:16], Title: "Kubernetes " + b.Manifest.Kubernetes + " and its images", build: build}
}
