package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/naupegos/naupegos/internal/provider/local/files"
)

// Image layers are one for all state roots that use them, and so are the host's subnets, also those of clusters that are switched off, of
// which the kernel knows nothing. So the roots are noted beside the layers.

func (p *Provider) rootsDir() string { return filepath.Join(p.opts.ImageRoot, "roots") }

// noteRoot notes that Options.Root uses Options.ImageRoot, and forgets roots that are gone. Call it under the host's lock.
func (p *Provider) noteRoot() error {
	if err := os.MkdirAll(p.rootsDir(), 0o755); err != nil {
		return err
	}
	links, err := filepath.Glob(filepath.Join(p.rootsDir(), "*"))
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
	if err := os.Symlink(p.n.root, filepath.Join(p.rootsDir(), files.Digest(p.n.root)[:16])); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// closeRoots keeps everybody but root away from machines and what they are made from, as from /var/lib/machines: root file systems have
// setuid programs, which age.
func (p *Provider) closeRoots() error {
	return errors.Join(os.Chmod(p.opts.ImageRoot, 0o700), os.Chmod(p.opts.Root, 0o700))
}

// roots lists the state roots that use Options.ImageRoot, Options.Root first.
func (p *Provider) roots() ([]string, error) {
	out := []string{p.n.root}
	links, err := filepath.Glob(filepath.Join(p.rootsDir(), "*"))
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		root, err := os.Readlink(l)
		if err == nil && !slices.Contains(out, root) {
			out = append(out, root)
		}
		if files.IgnoreGone(err) != nil { // gone: forgotten meanwhile
			return nil, err
		}
	}
	return out, nil
}

// inRoots lists the files of all clusters of all roots that have this name in their cluster's directory.
func (p *Provider) inRoots(name string) ([]string, error) {
	roots, err := p.roots()
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
