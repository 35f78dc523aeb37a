package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/tool"
)

// The formats of an image file.
const (
	QCOW2 = "qcow2" // compressed
	Raw   = "raw"   // sparse
	// System is not a disk but a directory with the files for installing physical machines: see BuildSystem.
	System = "system"
)

// Options describe the image to make.
type Options struct {
	Bundle  *bundle.Bundle
	Agent   string // naupegos-agent on this host
	Version string // of naupegos

	Output   string // file to write; Info is written next to it, with ".json" added
	Format   string // QCOW2 or Raw
	SizeGiB  int    // of the disk; 0: as large as its content requires
	Virtual  bool   // for a System: only for emulated machines, with a kernel a fifth as large
	Progress plan.Progress
}

// suite is the Debian release of images, and release its VERSION_ID in os-release.
const suite, release = "bookworm", "12"

// recipe must change whenever the same input leads to a different image.
const recipe = "image 1"

// builder makes one image.
type builder struct {
	Options
	agent string // digest
	work  string // temporary directory next to the output
	ids   ids
}

// Build makes the image, in one to five minutes. If it is stopped, it leaves no image, and at most a directory that the next run removes. Errors:
// fail.Refused if this host lacks something, fail.Conflict if another process is making the same file.
func Build(ctx context.Context, o Options) (*Info, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Format == System || o.Bundle == nil {
		return nil, fail.New(fail.Internal, "a disk image has a format and a bundle")
	}
	var info *Info
	err := work(ctx, o, func(b *builder) (err error) {
		info, err = b.build(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// work checks the options, calls do in a temporary working directory, and removes the directory.
func work(ctx context.Context, o Options, do func(b *builder) error) error {
	if err := o.Check(); err != nil {
		return err
	}
	if err := o.checkRoom(); err != nil {
		return err
	}
	if o.Progress == nil {
		o.Progress = silent{}
	}
	sum, err := rootfs.FileDigest(o.Agent)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "read the agent's binary").At(o.Agent).Do("build it: make build")
	}
	b := &builder{Options: o, agent: sum}
	b.ids = newIDs(b.bundleID(), sum)
	done, err := b.claim()
	if err != nil {
		return err
	}
	defer done()
	switch err := do(b); {
	case err != nil && tool.DiskFull(err):
		return fail.Wrap(fail.Refused, err, "make the image").At(o.Output).Do("make room on the disk and try again, or name a file on another one")
	case err != nil:
		return fail.Wrap(fail.KindOf(err), err, "make the image").At(o.Output)
	}
	return nil
}

// claim makes the working directory, locks it during the work, and returns a function that removes it.
func (b *builder) claim() (done func(), err error) {
	out, err := filepath.Abs(b.Output)
	if err != nil {
		return nil, err
	}
	b.Output = out
	b.work = filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".making")
	if err := os.MkdirAll(b.work, 0o700); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make the image").At(out)
	}
	f, err := os.Open(b.work)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make the image").At(out)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fail.Wrap(fail.Conflict, err, "another naupegos is making this image").At(out).Do("wait for it, or name another file"), f.Close())
	}
	if err := rootfs.RemoveGlob(filepath.Join(b.work, "*")); err != nil { // an interrupted run left it
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		os.RemoveAll(b.work)
		f.Close()
	}, nil
}

func (b *builder) build(ctx context.Context) (*Info, error) {
	root := filepath.Join(b.work, "root")
	if err := b.makeRoot(ctx, root); err != nil {
		return nil, err
	}
	d, err := b.layout(root)
	if err != nil {
		return nil, err
	}
	disk := filepath.Join(b.work, "disk.raw")
	if err := b.makeDisk(ctx, d, root, disk); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(root); err != nil { // frees its space
		return nil, err
	}
	file := disk
	if b.Format == QCOW2 {
		file = filepath.Join(b.work, "disk.qcow2")
		b.Progress.Status("packing as qcow2")
		if _, err := tool.Run(ctx, nil, "qemu-img", "convert", "-q", "-c", "-m", "4", "-f", "raw", "-O", "qcow2", disk, file); err != nil {
			return nil, err
		}
	}
	return b.finish(ctx, d, file)
}

// finish gives the image its name, and writes its description.
func (b *builder) finish(ctx context.Context, d layout, file string) (*Info, error) {
	b.Progress.Status("computing its checksum")
	if err := os.Chmod(file, 0o644); err != nil {
		return nil, err
	}
	size, sum, err := Checksum(ctx, file, nil)
	if err != nil {
		return nil, err
	}
	m := b.Bundle.Manifest
	info := &Info{
		Schema: 1, File: filepath.Base(b.Output), Format: b.Format, Size: size, SHA512: sum, DiskGiB: d.sizeGiB(),
		Distribution: "debian", Release: release, Architecture: runtime.GOARCH, Kubernetes: m.Title(), Bundle: b.Bundle.ID, Agent: b.agent,
		Version: b.Version, Made: time.Now().UTC().Truncate(time.Second),
	}
	if err := os.Rename(file, b.Output); err != nil {
		return nil, err
	}
	return info, info.write(b.Output)
}

// Check reports whether the options are valid and this host has the required tools, without the bundle.
func (o *Options) Check() error {
	switch o.Format {
	case QCOW2, Raw, System:
	default:
		return fail.New(fail.Invalid, "no image format %q", o.Format).Do("use qcow2 or raw")
	}
	if o.SizeGiB < 0 || o.SizeGiB > 2048 {
		return fail.New(fail.Invalid, "a disk of %d GiB", o.SizeGiB).Do("give 3 to 2048, or nothing: machines make their file system as large as their disk")
	}
	return o.checkHost()
}

// bundleID returns the bundle's ID, or "".
func (b *builder) bundleID() string {
	if b.Bundle == nil {
		return ""
	}
	return b.Bundle.ID
}

// title returns the title of the bundle's Kubernetes release.
func (b *builder) title() string {
	if b.Bundle == nil {
		return "none"
	}
	return b.Bundle.Manifest.Title()
}

type silent struct{}

func (silent) Status(string, ...any) {}
