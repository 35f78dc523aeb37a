package layers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

// Base is a root file system made elsewhere, for example that of a disk image. It has what every machine needs (see
// rootfs.MachinePackages); the changes for a container are applied to it. If its containerd root holds images, machines
// have these.
type Base struct {
	Key    string                                                               // identifies the content: another key is another base
	Title  string                                                               // for progress
	Unpack func(ctx context.Context, root string, progress plan.Progress) error // into an empty directory, with owners
}

// baseLayer is the machines' root file system, adapted to a container that boots fast. It depends on the host's cgroup
// hierarchies, because a unit inside remounts them.
func (s Stack) baseLayer() (Layer, error) {
	hs, err := process.Hierarchies()
	if err != nil {
		return Layer{}, err
	}
	base := s.Base
	if base == nil {
		base = &Base{Key: s.Debian.key(), Title: "Debian " + s.Debian.Suite + " root file system", Unpack: s.Debian.Unpack}
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
	return Layer{Name: "base-" + files.Digest(base.Key, files.Digest(fmt.Sprintf("%#v", tweaks)))[:16], Title: base.Title, build: build}, nil
}

// takeStore moves containerd's root, if there is one, out of a root file system: machines get their own copies.
func takeStore(root, to string) error {
	from := filepath.Join(root, machine.ContainerdRoot)
	if err := os.Rename(from, to); err != nil {
		return files.IgnoreGone(err)
	}
	return os.Mkdir(from, 0o711)
}
