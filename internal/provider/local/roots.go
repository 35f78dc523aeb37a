package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/naupegos/naupegos/internal/provider/local/files"
)

// All state roots with the same image root share its layers, and all share the host's subnets. The kernel does not know the subnets of
// clusters that are switched off. So the image root lists its state roots, as links in the directory roots.

func rootsDir(p *Provider) string { return filepath.Join(p.opts.ImageRoot, "roots") }

// noteRoot records that Options.Root uses Options.ImageRoot, and removes the records of deleted roots. Call it under the host's lock.
func noteRoot(p *Provider) error {
	if err := os.MkdirAll(rootsDir(p), 0o755); err != nil {
		return err
	}
	links, err := filepath.Glob(filepath.Join(rootsDir(p), "*"))
	if err != nil {
		return err
	}
	for _, l := range links {
		if _, err := os.Stat(l); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := files.IgnoreGone(os.Remove(l)); err != nil {
			return err
		}
	}
	if err := os.Symlink(p.n.root, filepath.Join(rootsDir(p), files.Digest(p.n.root)[:16])); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// closeRoots lets only root into the directories of machines and images, as with /var/lib/machines: root file systems contain
// setuid programs, which become outdated.
func closeRoots(p *Provider) error {
	return errors.Join(os.Chmod(p.opts.ImageRoot, 0o700), os.Chmod(p.opts.Root, 0o700))
}

// roots lists the state roots that use Options.ImageRoot, Options.Root first.
func roots(p *Provider) ([]string, error) {
	out := []string{p.n.root}
	links, err := filepath.Glob(filepath.Join(rootsDir(p), "*"))
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		root, err := os.Readlink(l)
		if err == nil && !slices.Contains(out, root) {
			out = append(out, root)
		}
		if files.IgnoreGone(err) != nil { // deleted in the meantime
			return nil, err
		}
	}
	return out, nil
}

// inRoots lists the paths with the given name in the directories of all clusters of all roots.
func inRoots(p *Provider, name string) ([]string, error) {
	roots, err := roots(p)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, root := range roots {
		files, err := filepath.Glob(filepath.Join(root, "*", name))
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	return out, nil
}
