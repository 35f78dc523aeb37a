// Package discovery builds the image that unknown machines boot: Debian's unmodified kernel, and an initramfs with the modules for network cards
// and disks and with the agent as its first process. The result is reproducible: the same kernel and agent give the same bytes.
//
// It does not know servers, nor how machines boot the image.
package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/within"
)

// The files of an image.
const (
	KernelFile = "vmlinuz"
	InitrdFile = "initrd"
	infoFile   = "image.json"
)

// maxInfo is how many bytes an infoFile may have.
const maxInfo = 1 << 20

// recipe changes whenever an image is made differently of the same things.
const recipe = "discovery 1"

// Options describe the image.
type Options struct {
	Agent   string   // naupegos-agent on this host
	Cache   string   // directory of images and packages
	Package string   // file with Debian's package of the kernel; empty: this host's apt downloads it
	Newest  bool     // ask apt for the newest kernel; else the one of the last time will do
	Modules []string // which modules, as Modules has them; nil: these

	Progress plan.Progress
}

// Info describes an image.
type Info struct {
	ID           string `json:"id"`            // of the kernel, the agent and the recipe
	Kernel       string `json:"kernel"`        // its release: "6.1.0-56-amd64"
	Package      string `json:"package"`       // SHA-256 of the kernel's package
	Agent        string `json:"agent"`         // SHA-256 of the agent
	Modules      int    `json:"modules"`       // how many there are
	KernelSize   int64  `json:"kernelSize"`    // bytes
	InitrdSize   int64  `json:"initrdSize"`    //
	InitrdSHA256 string `json:"initrd_sha256"` //
}

// Image is an image on this host.
type Image struct {
	Dir string
	Info
}

// Kernel returns the file with the kernel.
func (i *Image) Kernel() string { return filepath.Join(i.Dir, KernelFile) }

// Initrd returns the file with the initramfs.
func (i *Image) Initrd() string { return filepath.Join(i.Dir, InitrdFile) }

// Build builds the image unless the cache has it. If it is interrupted, it leaves no image.
func Build(ctx context.Context, o Options) (*Image, error) {
	if o.Progress == nil {
		o.Progress = silent{}
	}
	if o.Modules == nil {
		o.Modules = Modules
	}
	if err := os.MkdirAll(o.Cache, 0o755); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make the directory of discovery images")
	}
	lock, err := claim(ctx, o.Cache)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := rootfs.RemoveGlob(filepath.Join(o.Cache, ".making-*")); err != nil { // an interrupted run left it
		return nil, err
	}
	agent, err := rootfs.FileDigest(o.Agent)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the agent's binary").At(o.Agent).Do("build it: make build")
	}
	programs, err := withLibraries(Programs)
	if err != nil {
		return nil, err
	}
	p, err := o.kernel(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{recipe, p.SHA256, agent, digestOf(programs)}, o.Modules...), "\x00")))
	info := Info{ID: hex.EncodeToString(sum[:8]), Package: p.SHA256, Agent: agent}
	dir := filepath.Join(o.Cache, "image-"+info.ID)
	if found, err := Open(dir); err == nil {
		return found, nil
	}
	if err := o.make(ctx, p.file, info, programs, dir); err != nil {
		return nil, err
	}
	return Open(dir)
}

// claim takes the lock on the cache, which serialises builds.
func claim(ctx context.Context, cache string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "lock the directory of discovery images")
	}
	got := make(chan error, 1)
	go func() { got <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	select {
	case err = <-got:
	case <-ctx.Done():
		err = context.Cause(ctx) // the file stays open until the process ends
		return nil, fail.Wrap(fail.Interrupted, err, "wait for another naupegos that makes a discovery image")
	}
	if err != nil {
		return nil, errors.Join(fail.Wrap(fail.Refused, err, "lock the directory of discovery images"), f.Close())
	}
	return f, nil
}

// Open returns the image in a directory.
func Open(dir string) (*Image, error) {
	in, err := within.Open(dir)
	var data []byte
	if err == nil {
		defer in.Close() // read only
		data, err = in.Read(infoFile, maxInfo)
	}
	if err != nil {
		return nil, fail.Wrap(fail.NotFound, err, "read the discovery image").Do("make one: naupegos image discovery")
	}
	i := &Image{Dir: dir}
	if err := json.Unmarshal(data, &i.Info); err != nil || i.ID == "" {
		return nil, fail.New(fail.Invalid, "this describes no discovery image").At(filepath.Join(dir, infoFile))
	}
	if !filepath.IsLocal(i.ID) || filepath.Base(i.ID) != i.ID { // it names a directory
		return nil, fail.New(fail.Invalid, "%q is not the ID of a discovery image", i.ID).At(filepath.Join(dir, infoFile))
	}
	for file, size := range map[string]int64{KernelFile: i.KernelSize, InitrdFile: i.InitrdSize} {
		st, err := in.Stat(file)
		if within.Escapes(err) {
			return nil, err
		}
		if err != nil || !st.Mode().IsRegular() || st.Size() != size {
			return nil, fail.New(fail.Invalid, "the discovery image is damaged").At(filepath.Join(dir, file)).Do("remove it, and make it again: naupegos image discovery")
		}
	}
	return i, nil
}

// make makes the image, and gives it its name last.
func (o *Options) make(ctx context.Context, deb string, info Info, programs map[string][]byte, dir string) error {
	work, err := os.MkdirTemp(o.Cache, ".making-")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "make the discovery image")
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	o.Progress.Status("reading the kernel's package")
	k, err := readKernel(ctx, deb, o.Modules)
	if err != nil {
		return err
	}
	info.Kernel, info.Modules, info.KernelSize = k.release, len(k.content), int64(len(k.image))
	if err := os.WriteFile(filepath.Join(work, KernelFile), k.image, 0o644); err != nil {
		return fail.Wrap(fail.Refused, err, "write the kernel")
	}
	o.Progress.Status("packing %d modules and the agent", info.Modules)
	if info.InitrdSize, info.InitrdSHA256, err = writeInitrd(filepath.Join(work, InitrdFile), k, o.Agent, programs); err != nil {
		return fail.Wrap(fail.Refused, err, "write the initramfs")
	}
	data, err := json.MarshalIndent(info, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(work, infoFile), append(data, '\n'), 0o644)
	}
	if err == nil {
		err = os.RemoveAll(dir) // a damaged one
	}
	if err == nil {
		err = os.Rename(work, dir)
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write the discovery image").At(dir)
	}
	return nil
}

// CopyTo puts the image's files into a directory, each of them whole or not at all, the description last.
func (i *Image) CopyTo(dir string) error {
	from, err := within.Open(i.Dir)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "copy the discovery image")
	}
	defer from.Close() // read only
	to, err := within.Make(dir, 0o755)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "copy the discovery image")
	}
	defer to.Close() // the data is synced already
	for _, name := range []string{KernelFile, InitrdFile, infoFile} {
		in, err := from.Open(name)
		if err == nil {
			err = to.Write(name, 0o644, 0o755, func(w io.Writer) error {
				_, err := io.Copy(w, in)
				return err
			})
			err = errors.Join(err, in.Close())
		}
		if err != nil {
			return fail.Wrap(fail.Refused, err, "copy the discovery image").At(dir)
		}
	}
	return nil
}

type silent struct{}

func (silent) Status(string, ...any) {}
