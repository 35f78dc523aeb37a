package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// layer is one directory of a prepared image, named after what it was made from: complete where it exists, never changed.
// A machine's disk is its own upper directory over its layers' "root" directories.
type layer struct {
	name  string // "base-<key>"
	title string // for progress
	build func(ctx context.Context, dir string, progress plan.Progress) error
}

func (p *Provider) layerDir(name string) string { return filepath.Join(p.opts.ImageRoot, name) }

// layers returns what machines' images are made of with these options, topmost first.
// A new agent or bundle makes one new layer, not a whole new image.
func (p *Provider) layers() ([]layer, error) {
	var out []layer
	if p.opts.AgentBinary != "" {
		l, err := p.agentLayer()
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	if p.opts.Bundle != nil {
		out = append(out, p.bundleLayer())
	}
	base, err := p.baseLayer()
	return append(out, base), err
}

// missingLayers returns those of the layers that are not there yet.
func (p *Provider) missingLayers() ([]layer, error) {
	all, err := p.layers()
	if err != nil {
		return nil, err
	}
	var out []layer
	for _, l := range all {
		if _, err := os.Stat(p.layerDir(l.name)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, l)
		} else if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// storeDir is where a layer has a ready-made containerd store, beside its root.
const storeDir = "containerd"

// lowerDirs returns the overlay's lower directories for a new machine, topmost first, and the directory with the ready-made
// containerd store; empty where no layer has one.
func (p *Provider) lowerDirs() (lower []string, store string, err error) {
	all, err := p.layers()
	if err != nil {
		return nil, "", err
	}
	for _, l := range all {
		lower = append(lower, filepath.Join(p.layerDir(l.name), "root"))
		switch _, err := os.Stat(filepath.Join(p.layerDir(l.name), storeDir)); {
		case err == nil && store == "":
			store = filepath.Join(p.layerDir(l.name), storeDir)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, "", err
		}
	}
	return lower, store, nil
}

// makeLayers makes the missing layers under the image lock: each in a temporary directory that is renamed when it is
// complete and on the disk. What an interrupted run left is removed first.
func (p *Provider) makeLayers(ctx context.Context, progress plan.Progress) error {
	progress.Status("waiting for the lock on prepared images")
	release, err := files.Lock(ctx, filepath.Join(p.opts.ImageRoot, ".lock"))
	if err != nil {
		return err
	}
	defer release()
	if err := rootfs.RemoveGlob(filepath.Join(p.opts.ImageRoot, ".tmp-*")); err != nil {
		return err
	}
	missing, err := p.missingLayers()
	if err != nil {
		return err
	}
	for _, l := range missing {
		progress.Status("preparing %s", l.title)
		if err := p.makeLayer(ctx, l, progress); err != nil {
			return files.MakeError(err, "prepare "+l.title, p.layerDir(l.name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	progress.Status("removing images that are no longer used")
	if _, err := p.pruneLayers(layerRest); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "remove images that are no longer used").At(p.opts.ImageRoot)
	}
	return nil
}

func (p *Provider) makeLayer(ctx context.Context, l layer, progress plan.Progress) error {
	tmp, err := os.MkdirTemp(p.opts.ImageRoot, ".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(tmp, "root"), 0o755); err != nil {
		return err
	}
	if err := l.build(ctx, tmp, progress); err != nil {
		return err
	}
	if err := syncFS(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, p.layerDir(l.name)); err != nil {
		return err
	}
	return files.SyncDir(p.opts.ImageRoot)
}

// syncFS writes out everything of the file system that dir is on.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// imagePlan returns the step that makes the missing layers, or nil.
func (p *Provider) imagePlan() (*plan.Step, error) {
	missing, err := p.missingLayers()
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	var details []string
	for _, l := range missing {
		details = append(details, l.title)
	}
	return &plan.Step{
		ID: imageStep, Action: plan.Create, Title: "prepare image for machines", Subject: "cluster",
		Reason: "not prepared on this host yet", Details: details, Timeout: p.opts.Timeouts.Image, Run: p.makeLayers,
	}, nil
}

const imageStep = "image"
