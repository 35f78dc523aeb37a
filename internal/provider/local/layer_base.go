package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/tool"
)

// baseLayer is the machines' root file system, made fit for a container that boots fast. It depends on the host's cgroup
// hierarchies, because a unit inside mounts them again.
func (p *Provider) baseLayer() (layer, error) {
	hs, err := process.Hierarchies()
	if err != nil {
		return layer{}, err
	}
	base := p.opts.Base
	if base == nil {
		base = &Base{Key: p.debian().key(), Title: "Debian " + p.opts.Suite + " root file system", Unpack: p.unpackDebian}
	}
	tweaks := baseTweaks(hs)
	build := func(ctx context.Context, dir string, progress plan.Progress) error {
		root := filepath.Join(dir, "root")
		if err := base.Unpack(ctx, root, progress); err != nil {
			return err
		}
		if err := takeStore(root, filepath.Join(dir, storeDir)); err != nil {
			return err
		}
		return tweaks.Apply(root)
	}
	return layer{name: "base-" + digest(base.Key, digest(fmt.Sprintf("%#v", tweaks)))[:16], title: base.Title, build: build}, nil
}

// unpackDebian unpacks Debian's root file system, which it makes where the cache has none.
func (p *Provider) unpackDebian(ctx context.Context, root string, progress plan.Progress) error {
	if err := p.debian().make(ctx, progress); err != nil {
		return err
	}
	progress.Status("unpacking Debian %s", p.opts.Suite)
	return extract(ctx, p.debian().tar(), root)
}

// takeStore moves containerd's root out of a root file system, where there is one: machines get a copy of their own.
func takeStore(root, to string) error {
	from := filepath.Join(root, machine.ContainerdRoot)
	if err := os.Rename(from, to); err != nil {
		return files.IgnoreGone(err)
	}
	return os.Mkdir(from, 0o711)
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
	err = tool.Do(ctx, cmd)
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
