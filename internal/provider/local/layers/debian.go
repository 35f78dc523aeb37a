package layers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/tool"
)

// baseRecipe must change whenever the same packages would give a different base image.
const baseRecipe = "base 2"

// Debian is Debian's root file system as a tar in the cache, shared by the machines of all clusters.
type Debian struct {
	Suite string // the release: "bookworm"
	Cache string // directory
}

func (d Debian) key() string {
	return files.Digest(baseRecipe, d.Suite, runtime.GOARCH, strings.Join(rootfs.MachinePackages, " "), strings.Join(rootfs.Excluded, " "))[:16]
}

// Tar returns the path of the tar, which need not exist yet.
func (d Debian) Tar() string {
	return filepath.Join(d.Cache, "local", "base-"+d.Suite+"-"+d.key()+".tar.zst")
}

// Make makes the tar with mmdebstrap, unless the cache has it. It takes one to three minutes.
// If it is interrupted, it leaves no image, but may leave a temporary directory that the next run removes.
func (d Debian) Make(ctx context.Context, progress plan.Progress) error {
	target := d.Tar()
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
	progress.Status("creating the Debian %s root file system with mmdebstrap", d.Suite)
	file := filepath.Join(tmp, "base.tar.zst")
	if err := d.debootstrap(ctx, tmp, file, progress); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "make the base image").At(target).
			Do("check that this host reaches its Debian mirror (apt-get update) and has 3 GiB free in %s", d.Cache)
	}
	if err := os.Rename(file, target); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(target))
}

func (d Debian) debootstrap(ctx context.Context, tmp, file string, progress plan.Progress) error {
	r := rootfs.Debian{Suite: d.Suite, Packages: rootfs.MachinePackages}
	return compressed(file, progress, func(w io.Writer) error { return r.Tar(ctx, tmp, w) })
}

// compressed creates a file with the zstd-compressed output of write, and syncs it.
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

// meter is a writer that reports its progress every 32 MiB.
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

// Unpack unpacks the root file system into an empty directory. It makes the tar first if the cache lacks it.
func (d Debian) Unpack(ctx context.Context, root string, progress plan.Progress) error {
	if err := d.Make(ctx, progress); err != nil {
		return err
	}
	progress.Status("unpacking Debian %s", d.Suite)
	return extract(ctx, d.Tar(), root)
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

// errReader keeps the error, other than io.EOF, that ended reading.
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
