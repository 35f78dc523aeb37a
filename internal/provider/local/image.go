package local

import (
	"context"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
)

// debian describes the root file system of new machines if the options name no other base.
func (p *Provider) debian() layers.Debian {
	return layers.Debian{Suite: p.opts.Suite, Cache: p.opts.Cache}
}

// layers returns the stack of image layers below new machines' disks.
func (p *Provider) layers() layers.Stack {
	return layers.Stack{
		Dir: p.opts.ImageRoot, Debian: p.debian(), Base: p.opts.Base, Bundle: p.opts.Bundle,
		AgentBinary: p.opts.AgentBinary, AgentDigest: p.agentDigest, InUse: p.layersInUse,
	}
}

// MakeBase puts the base image of a Debian release into the user's cache, unless it is there. It is an optimization for callers that wait for
// something else, such as a bundle: otherwise the first step that needs the base image makes it.
func MakeBase(ctx context.Context, suite string, progress plan.Progress) error {
	o := Options{ClusterID: "base", Suite: suite}
	if err := o.setDefaults(); err != nil {
		return err
	}
	return layers.Debian{Suite: o.Suite, Cache: o.Cache}.Make(ctx, progress)
}

// imagePlan returns the step that makes the missing layers, or nil.
func (p *Provider) imagePlan() (*plan.Step, error) {
	missing, err := p.layers().Missing()
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	var details []string
	for _, l := range missing {
		details = append(details, l.Title)
	}
	return &plan.Step{
		ID: imageStep, Action: plan.Create, Title: "prepare the image of machines", Subject: "cluster",
		Reason: "it is not prepared on this host yet", Details: details, Timeout: p.opts.Timeouts.Image, Run: p.layers().Make,
	}, nil
}

const imageStep = "image"

// PruneImages removes prepared image layers that no machine of any cluster of any state root uses, that these options
// would not use again, and that no new machine has used for the given time. It returns their names. Cached base images
// stay, because making one takes minutes.
func (p *Provider) PruneImages(ctx context.Context, unused time.Duration) (removed []string, err error) {
	return p.layers().Prune(ctx, unused)
}

// layersInUse lists the layers below the disks of all machines, of all clusters of all state roots.
func (p *Provider) layersInUse() ([]string, error) {
	var out []string
	dirs, err := inRoots(p, "machines")
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		rs, err := records(d)
		if err != nil {
			return nil, err
		}
		for _, r := range rs {
			if r.damage != "" {
				return nil, fail.New(fail.Conflict, "it can't be known which image machine %s uses: its record is damaged", r.Name)
			}
			for _, l := range r.Lower {
				out = append(out, filepath.Base(filepath.Dir(l)))
			}
		}
	}
	return out, nil
}
