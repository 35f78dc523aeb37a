package layers

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/rootfs"
)

// Stack is what the disks of a cluster's machines stand on: the layers that these options ask for.
type Stack struct {
	Dir         string                   // where layers lie, those of other clusters, too
	Debian      Debian                   // what machines begin with where there is no Base
	Base        *Base                    // nil: Debian
	Bundle      *bundle.Bundle           // put into a layer; may be nil
	AgentBinary string                   // put into a layer; may be empty
	AgentDigest func() (string, error)   // of AgentBinary
	InUse       func() ([]string, error) // names of the layers that machines stand on; fail.Conflict where that can't be known
}

// Layer is one directory of a prepared image, named after what it was made from: complete where it exists, never changed.
// A machine's disk is its own upper directory over its layers' "root" directories.
type Layer struct {
	Name  string // "base-<key>"
	Title string // for progress
	build func(ctx context.Context, dir string, progress plan.Progress) error
}

func (s Stack) dir(name string) string { return filepath.Join(s.Dir, name) }

// layers returns what machines' images are made of with these options, topmost first.
// A new agent or bundle makes one new layer, not a whole new image.
func (s Stack) layers() ([]Layer, error) {
	var out []Layer
	if s.AgentBinary != "" {
		l, err := s.agentLayer()
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	if s.Bundle != nil {
		out = append(out, s.bundleLayer())
	}
	base, err := s.baseLayer()
	return append(out, base), err
}

// Missing returns those of the layers that are not there yet.
func (s Stack) Missing() ([]Layer, error) {
	all, err := s.layers()
	if err != nil {
		return nil, err
	}
	var out []Layer
	for _, l := range all {
		if _, err := os.Stat(s.dir(l.Name)); errors.Is(err, fs.ErrNotExist) {
			out = append(out, l)
		} else if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// storeDir is where a layer has a ready-made containerd store, beside its root.
const storeDir = "containerd"

// Lower returns the overlay's lower directories for a new machine, topmost first, and the directory with the ready-made
// containerd store; empty where no layer has one.
func (s Stack) Lower() (lower []string, store string, err error) {
	all, err := s.layers()
	if err != nil {
		return nil, "", err
	}
	for _, l := range all {
		lower = append(lower, filepath.Join(s.dir(l.Name), "root"))
		switch _, err := os.Stat(filepath.Join(s.dir(l.Name), storeDir)); {
		case err == nil && store == "":
			store = filepath.Join(s.dir(l.Name), storeDir)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, "", err
		}
	}
	return lower, store, nil
}

// Make makes the missing layers under the image lock: each in a temporary directory that is renamed when it is
// complete and on the disk. What an interrupted run left is removed first.
func (s Stack) Make(ctx context.Context, progress plan.Progress) error {
	progress.Status("waiting for the lock on prepared images")
	release, err := files.Lock(ctx, filepath.Join(s.Dir, ".lock"))
	if err != nil {
		return err
	}
	defer release()
	if err := rootfs.RemoveGlob(filepath.Join(s.Dir, ".tmp-*")); err != nil {
		return err
	}
	missing, err := s.Missing()
	if err != nil {
		return err
	}
	for _, l := range missing {
		progress.Status("preparing %s", l.Title)
		if err := s.make(ctx, l, progress); err != nil {
			return files.MakeError(err, "prepare "+l.Title, s.dir(l.Name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	progress.Status("removing images that are no longer used")
	if _, err := s.prune(Rest); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "remove images that are no longer used").At(s.Dir)
	}
	return nil
}

func (s Stack) make(ctx context.Context, l Layer, progress plan.Progress) error {
	tmp, err := os.MkdirTemp(s.Dir, ".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(tmp, "root"), 0o755); err != nil {
		return err
	}
	if err := l.build(ctx, tmp, progress); err != nil {
		return err
	}
	if err := syncFS(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, s.dir(l.Name)); err != nil {
		return err
	}
	return files.SyncDir(s.Dir)
}

// syncFS writes out everything of the file system that dir is on.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// IsBase reports whether the layer is a root file system.
func (l Layer) IsBase() bool { return strings.HasPrefix(l.Name, "base-") }
