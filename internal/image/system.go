package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/rootfs"
	"github.com/naupegos/naupegos/internal/within"
)

// The files of a system image's directory. The manifest is an order.System; its paths are the other files' paths on a server.
const (
	manifestFile = "manifest.json"
	rootFile     = "root.zst"
	headFile     = "head.zst"
	systemPaths  = "/assets/systems/"
)

// BuildSystem makes the files for installing physical machines: the file system of a slot, and the beginning of a disk with the boot loaders. It puts
// them into a directory in Output, named after the system's ID. A server serves it if it is below assets/systems of the server's boot directory. Without
// a bundle the system contains none. It returns the errors of Build.
func BuildSystem(ctx context.Context, o Options) (*order.System, error) {
	parent := o.Output
	o.Format = System
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make the directory of system images")
	}
	o.Output = filepath.Join(parent, "system")
	var s *order.System
	err := work(ctx, o, func(b *builder) (err error) {
		s, err = b.system(ctx, parent)
		return err
	})
	return s, err
}

func (b *builder) system(ctx context.Context, parent string) (*order.System, error) {
	root := filepath.Join(b.work, "root")
	if err := b.makeRoot(ctx, root); err != nil {
		return nil, err
	}
	agent := filepath.Join(root, slotAgent)
	if err := os.MkdirAll(filepath.Dir(agent), 0o755); err != nil {
		return nil, err
	}
	if err := rootfs.CopyFile(b.Agent, agent); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chown(agent, 0, 0), os.Chmod(agent, 0o755)); err != nil {
		return nil, err
	}
	core, err := b.installGRUB(ctx, root)
	if err != nil {
		return nil, err
	}
	esp, head, disk := filepath.Join(b.work, "esp"), filepath.Join(b.work, "head"), filepath.Join(b.work, "slot")
	if err := b.makeESP(ctx, root, esp); err != nil {
		return nil, err
	}
	if err := fill(head, root, core, esp); err != nil {
		return nil, err
	}
	d, err := b.layout(root)
	if err != nil {
		return nil, err
	}
	b.Progress.Status("writing a file system of %d MiB", d.rootSize()/mib)
	if err := b.makeRootFS(ctx, 0, d.rootSize(), root, disk); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(root); err != nil { // frees its space
		return nil, err
	}
	s := &order.System{Kubernetes: b.title(), Bundle: b.bundleID()}
	b.Progress.Status("compressing")
	if s.Root, err = pack(ctx, disk, filepath.Join(b.work, rootFile)); err != nil {
		return nil, err
	}
	if s.Head, err = pack(ctx, head, filepath.Join(b.work, headFile)); err != nil {
		return nil, err
	}
	return s, b.publish(s, parent)
}

// publish gives the system's directory its final name and place.
func (b *builder) publish(s *order.System, parent string) error {
	sum := sha256.Sum256([]byte(strings.Join([]string{recipe, s.Kubernetes, s.Bundle, s.Root.RawSHA256, s.Head.RawSHA256}, "\x00")))
	name := hex.EncodeToString(sum[:])
	s.ID = "sha256:" + name
	s.Root.Path, s.Head.Path = systemPaths+name+"/"+rootFile, systemPaths+name+"/"+headFile
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	made := filepath.Join(b.work, name)
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	for _, f := range []string{rootFile, headFile} {
		if err := os.Rename(filepath.Join(b.work, f), filepath.Join(made, f)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(made, manifestFile), append(data, '\n'), 0o644); err != nil {
		return err
	}
	final := filepath.Join(parent, name)
	if _, err := os.Stat(final); err == nil {
		return nil // the same system exists already
	}
	return os.Rename(made, final)
}

// pack compresses a file and removes it; it computes both checksums on the way.
func pack(ctx context.Context, from, to string) (out order.Blob, err error) {
	in, err := os.Open(from)
	if err != nil {
		return out, err
	}
	defer in.Close() // read only
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return out, err
	}
	raw, packed := sha256.New(), sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(f, packed), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err == nil {
		for err == nil && ctx.Err() == nil {
			_, err = io.CopyN(io.MultiWriter(z, raw), in, 8<<20)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		err = errors.Join(err, ctx.Err(), z.Close())
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return out, err
	}
	for file, size := range map[string]*int64{from: &out.RawSize, to: &out.Size} {
		st, err := os.Stat(file)
		if err != nil {
			return out, err
		}
		*size = st.Size()
	}
	out.RawSHA256, out.SHA256 = hex.EncodeToString(raw.Sum(nil)), hex.EncodeToString(packed.Sum(nil))
	return out, os.Remove(from)
}

// maxSystemManifest is the size limit of a system image's manifest in bytes.
const maxSystemManifest = 1 << 20

// ReadSystem reads the manifest in a system image's directory, or returns fail.NotFound if there is none.
func ReadSystem(dir string) (*order.System, error) {
	in, err := within.Open(dir)
	if err != nil {
		return nil, systemError(err, dir)
	}
	defer in.Close() // read only
	return readSystem(in, manifestFile)
}

func systemError(err error, at string) error {
	if errors.Is(err, os.ErrNotExist) {
		return fail.New(fail.NotFound, "there is no system image").At(at).Do("make one: naupegos image system")
	}
	return fail.Wrap(fail.Refused, err, "read the system image's manifest")
}

func readSystem(in *within.Dir, file string) (*order.System, error) {
	data, err := in.Read(file, maxSystemManifest)
	if err != nil {
		return nil, systemError(err, in.Path())
	}
	var s order.System
	if err := json.Unmarshal(data, &s); err != nil || s.ID == "" || s.Root.Path == "" {
		return nil, fail.New(fail.Invalid, "this is not the manifest of a system image").At(filepath.Join(in.Path(), file)).Do("make the image again: naupegos image system")
	}
	return &s, nil
}

// SystemsDir returns the directory with the system images that naupegos server serves, for its state directory.
func SystemsDir(stateDir string) string { return filepath.Join(stateDir, "boot", "assets", "systems") }

// Systems reads the manifests of all system images in a directory, the newest last. A missing directory has no images.
func Systems(dir string) ([]order.System, error) {
	out := []order.System{}
	in, err := within.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "look for system images")
	}
	defer in.Close() // read only
	found, err := filepath.Glob(filepath.Join(dir, "*", manifestFile))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b string) int { return madeAt(a).Compare(madeAt(b)) })
	for _, f := range found {
		s, err := readSystem(in, path.Join(filepath.Base(filepath.Dir(f)), manifestFile))
		if err != nil {
			return nil, err
		}
		out = append(out, *s)
	}
	return out, nil
}

// madeAt returns when a file was written, or zero if it no longer exists.
func madeAt(file string) time.Time {
	st, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// The layout of a disk is defined twice: here for images, and in package slots for the installer.
var _ = [1]struct{}{}[espStart-slots.ESPStart+espSize-slots.ESPSize+biosStart-slots.BIOSStart]
