package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/plan"
)

// baseLayer is the Debian root file system, made fit for a container that boots fast. It depends on the host's cgroup
// hierarchies, because a unit inside mounts them anew.
func (p *Provider) baseLayer() (layer, error) {
	hs, err := hierarchies()
	if err != nil {
		return layer{}, err
	}
	tweaks := baseTweaks(hs)
	build := func(ctx context.Context, dir string, progress plan.Progress) error {
		if err := p.makeBase(ctx, progress); err != nil {
			return err
		}
		progress.Status("unpacking Debian %s", p.opts.Suite)
		root := filepath.Join(dir, "root")
		if err := extract(ctx, p.baseTar(), root); err != nil {
			return err
		}
		return tweaks.apply(root)
	}
	return layer{name: "base-" + digest(p.baseKey(), tweaks.key())[:16], title: "Debian " + p.opts.Suite + " root file system", build: build}, nil
}

// extract unpacks a zstd-compressed tar with owners, device nodes and extended attributes.
func extract(ctx context.Context, tarball, dir string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return err
	}
	defer z.Close()
	in := &errReader{r: z}
	cmd := exec.CommandContext(ctx, "tar", "--extract", "--numeric-owner", "--preserve-permissions",
		"--xattrs", "--xattrs-include=*", "--directory", dir)
	cmd.Stdin = in
	err = runCommand(ctx, cmd)
	if in.err != nil {
		return fmt.Errorf("the cached base image is damaged (%w); remove %s and try again", in.err, tarball)
	}
	return err
}

// errReader remembers why reading ended.
type errReader struct {
	r   io.Reader
	err error
}

func (e *errReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}

// tweaks are changes to a root file system.
type tweaks struct {
	remove []string          // globs
	mask   []string          // systemd units that must not start
	links  map[string]string // path → target
	files  map[string]string // path → content, mode 0644
	dirs   []string
}

func (t tweaks) key() string { return digest(fmt.Sprintf("%#v", t)) }

func (t tweaks) apply(root string) error {
	for _, g := range t.remove {
		if err := removeGlob(filepath.Join(root, g)); err != nil {
			return err
		}
	}
	for _, d := range t.dirs {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	for _, u := range t.mask {
		if err := symlink("/dev/null", filepath.Join(root, "etc/systemd/system", u)); err != nil {
			return err
		}
	}
	for _, path := range sortedKeys(t.links) {
		if err := symlink(t.links[path], filepath.Join(root, path)); err != nil {
			return err
		}
	}
	for _, path := range sortedKeys(t.files) {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := ignoreGone(os.Remove(file)); err != nil { // it may be a link
			return err
		}
		if err := os.WriteFile(file, []byte(t.files[path]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func symlink(target, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}
