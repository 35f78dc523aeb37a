package local

import (
	"context"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
)

// debian is the root file system that machines begin with where the options name no other.
func (p *Provider) debian() layers.Debian {
	return layers.Debian{Suite: p.opts.Suite, Cache: p.opts.Cache}
}

// layers is what new machines' disks stand on with these options.
func (p *Provider) layers() layers.Stack {
	return layers.Stack{
		Dir: p.opts.ImageRoot, Debian: p.debian(), Base: p.opts.Base, Bundle: p.opts.Bundle,
		AgentBinary: p.opts.AgentBinary, AgentDigest: p.agentDigest, InUse: p.layersInUse,
	}
}

// MakeBase puts what machines of a Debian release begin with into the user's cache, unless it is there: for who has a reason to wait
// meanwhile, as for a bundle. Without it, the first step that needs it does the same.
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

// PruneImages removes prepared image layers that no machine of any cluster of any state root stands on, that these options
// would not use again, and of which no new machine was made for the given time. It returns their names. Cached base images
// stay: they are what takes minutes to make.
func (p *Provider) PruneImages(ctx context.Context, unused time.Duration) (removed []string, err error) {
	return p.layers().Prune(ctx, unused)
}

// layersInUse lists the layers that machines of all clusters of all state roots stand on.
func (p *Provider) layersInUse() ([]string, error) {
	var out []string
	dirs, err := p.inRoots("machines")
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
