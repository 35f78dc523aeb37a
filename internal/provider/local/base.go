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
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// baseRecipe changes whenever the base image is made differently from the same packages.
const baseRecipe = "base 2"

// baseImage is Debian's root file system as a tar in the cache, which machines of all clusters begin with.
type baseImage struct {
	suite string // Debian release
	cache string // directory
}

func (p *Provider) debian() baseImage { return baseImage{p.opts.Suite, p.opts.Cache} }

func (b baseImage) key() string {
	return digest(baseRecipe, b.suite, runtime.GOARCH, strings.Join(rootfs.MachinePackages, " "), strings.Join(rootfs.Excluded, " "))[:16]
}

func (b baseImage) tar() string {
	return filepath.Join(b.cache, "local", "base-"+b.suite+"-"+b.key()+".tar.zst")
}

// MakeBase puts what machines of a Debian release begin with into the user's cache, unless it is there: for who has a reason to wait
// meanwhile, as for a bundle. Without it, the first step that needs it does the same.
func MakeBase(ctx context.Context, suite string, progress plan.Progress) error {
	o := Options{ClusterID: "base", Suite: suite}
	if err := o.setDefaults(); err != nil {
		return err
	}
	return baseImage{o.Suite, o.Cache}.make(ctx, progress)
}

// make makes the tar with mmdebstrap, unless the cache has it. It takes one to three minutes.
// Interrupted, it leaves a temporary directory that the next run removes, and no image.
func (b baseImage) make(ctx context.Context, progress plan.Progress) error {
	target := b.tar()
	release, err := files.Lock(ctx, filepath.Join(filepath.Dir(target), ".lock"))
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
	progress.Status("making Debian %s root file system with mmdebstrap", b.suite)
	file := filepath.Join(tmp, "base.tar.zst")
	if err := b.debootstrap(ctx, tmp, file, progress); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "make the base image").At(target).
			Do("check that this host reaches its Debian mirror (apt-get update) and has 3 GiB free in %s", b.cache)
	}
	if err := os.Rename(file, target); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(target))
}

func (b baseImage) debootstrap(ctx context.Context, tmp, file string, progress plan.Progress) error {
	d := rootfs.Debian{Suite: b.suite, Packages: rootfs.MachinePackages}
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
