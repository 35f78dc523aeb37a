package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local/files"
)

// layerRest is how long a layer is kept after its last use by a new machine: another apply may be about to use it.
const layerRest = 24 * time.Hour

// PruneImages removes prepared image layers that no machine of any cluster of any state root stands on, that these options
// would not use again, and of which no new machine was made for the given time. It returns their names. Cached base images
// stay: they are what takes minutes to make.
func (p *Provider) PruneImages(ctx context.Context, unused time.Duration) (removed []string, err error) {
	release, err := files.Lock(ctx, filepath.Join(p.opts.ImageRoot, ".lock"))
	if err != nil {
		return nil, err
	}
	defer release()
	return p.pruneLayers(unused)
}

// pruneLayers does the work of PruneImages; the image lock is held.
func (p *Provider) pruneLayers(unused time.Duration) (removed []string, err error) {
	used, err := p.usedLayers()
	if fail.KindOf(err) == fail.Conflict {
		return nil, nil // not before that machine is mended or gone
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(p.opts.ImageRoot)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || slices.Contains(used, e.Name()) || !isLayer(e.Name()) {
			continue
		}
		if info, err := e.Info(); err != nil {
			return removed, err
		} else if time.Since(info.ModTime()) < unused {
			continue
		}
		// first out of sight: half a layer must never look like a whole one
		gone := filepath.Join(p.opts.ImageRoot, ".tmp-gone-"+e.Name())
		if err := os.Rename(filepath.Join(p.opts.ImageRoot, e.Name()), gone); err != nil {
			return removed, err
		}
		if err := os.RemoveAll(gone); err != nil {
			return removed, err
		}
		removed = append(removed, e.Name())
	}
	return removed, nil
}

func isLayer(name string) bool {
	for _, prefix := range []string{"base-", "bundle-", "agent-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// usedLayers lists the layers that machines stand on, and those of the present options.
func (p *Provider) usedLayers() ([]string, error) {
	var out []string
	current, err := p.layers()
	if err != nil {
		return nil, err
	}
	for _, l := range current {
		out = append(out, l.name)
	}
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

// touchLayers notes on the layers that they are used now.
func (p *Provider) touchLayers() error {
	all, err := p.layers()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, l := range all {
		if err := os.Chtimes(p.layerDir(l.name), now, now); err != nil {
			return err
		}
	}
	return nil
}
