package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// baseRecipe changes whenever the base image is made differently from the same packages.
const baseRecipe = "base 2"

func (p *Provider) baseKey() string {
	return digest(baseRecipe, p.opts.Suite, runtime.GOARCH, strings.Join(rootfs.MachinePackages, " "), strings.Join(rootfs.Excluded, " "))[:16]
}

func (p *Provider) baseTar() string {
	return filepath.Join(p.opts.Cache, "local", "base-"+p.opts.Suite+"-"+p.baseKey()+".tar.zst")
}

// makeBase makes the base image's tar with mmdebstrap, unless the cache has it. It takes one to three minutes.
// Interrupted, it leaves a temporary directory that the next run removes, and no image.
func (p *Provider) makeBase(ctx context.Context, progress plan.Progress) error {
	target := p.baseTar()
	release, err := lockFile(ctx, filepath.Join(filepath.Dir(target), ".lock"))
	if err != nil {
		return err
	}
	defer release()
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := rootfs.RemoveGlob(filepath.Join(filepath.Dir(target), ".tmp-*")); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(target), ".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	progress.Status("making Debian %s root file system with mmdebstrap", p.opts.Suite)
	file := filepath.Join(tmp, "base.tar.zst")
	if err := p.debootstrap(ctx, tmp, file, progress); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "make the base image").At(target).
			Do("check that this host reaches its Debian mirror (apt-get update) and has 3 GiB free in %s", p.opts.Cache)
	}
	if err := os.Rename(file, target); err != nil {
		return err
	}
	return syncDir(filepath.Dir(target))
}

func (p *Provider) debootstrap(ctx context.Context, tmp, file string, progress plan.Progress) error {
	d := rootfs.Debian{Suite: p.opts.Suite, Packages: rootfs.MachinePackages}
	return compressed(file, progress, func(w io.Writer) error { return d.Tar(ctx, tmp, w) })
}

// compressed has write fill a zstd-compressed file, and syncs it.
func compressed(file string, progress plan.Progress, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	if err := write(&meter{w: z, progress: progress}); err != nil {
		return errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Sync()
}

// meter reports how much was written, every 32 MiB.
type meter struct {
	w        io.Writer
	progress plan.Progress
	n, told  int64
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.n += int64(n)
	if m.n-m.told >= 32<<20 {
		m.told = m.n
		m.progress.Status("packing root file system: %d MiB", m.n>>20)
	}
	return n, err
}
