package local

import (
	"context"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// agentLayer holds the agent where machine.AgentDir says, named by its digest.
func (p *Provider) agentLayer() (layer, error) {
	sum, err := p.agentDigest()
	if err != nil {
		return layer{}, fail.Wrap(fail.Refused, err, "read the agent's binary").At(p.opts.AgentBinary).Do("build it: make build")
	}
	build := func(_ context.Context, dir string, _ plan.Progress) error {
		return rootfs.PlaceAgent(p.opts.AgentBinary, sum, filepath.Join(dir, "root"))
	}
	return layer{name: "agent-" + sum[:16], title: "agent " + sum[:12], build: build}, nil
}

// bundleRecipe changes whenever the bundle's layer is made differently from the same bundle.
const bundleRecipe = "bundle 2"

// bundleLayer holds the bundle's blobs where machine.BlobDir says and, beside the root, containerd's store with all
// images of the bundle imported and unpacked.
func (p *Provider) bundleLayer() layer {
	b := p.opts.Bundle
	build := func(ctx context.Context, dir string, progress plan.Progress) error {
		if err := rootfs.PlaceBlobs(b, rootfs.Artifacts(b.Manifest), filepath.Join(dir, "root")); err != nil {
			return err
		}
		// its temporary files lie beside the layer, where the next run finds what an interrupted one left
		return rootfs.ImageStore(ctx, b, filepath.Join(dir, storeDir), filepath.Dir(dir), progress)
	}
	return layer{name: "bundle-" + digest(bundleRecipe, b.ID)[:16], title: "Kubernetes " + b.Manifest.Kubernetes + " and its images", build: build}
}
