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

// Stack describes the layers below the disks of a cluster's machines.
type Stack struct {
	Dir         string                   // the directory of all layers, including those of other clusters
	Debian      Debian                   // the root file system if Base is nil
	Base        *Base                    // nil: Debian
	Bundle      *bundle.Bundle           // put into a layer; may be nil
	AgentBinary string                   // put into a layer; may be empty
	AgentDigest func() (string, error)   // of AgentBinary
	InUse       func() ([]string, error) // names of the layers that machines use; fail.Conflict if a damaged record hides them
}

// Layer is one directory of a prepared image, named after its inputs. A layer that exists is complete and never changes.
// A machine's disk is its own upper directory over its layers' "root" directories.
type Layer struct {
	Name  string // "base-<key>"
	Title string // for progress
	build func(ctx context.Context, dir string, progress plan.Progress) error
}

func (s Stack) dir(name string) string { return filepath.Join(s.Dir, name) }

// layers returns the layers of machines' images, topmost first.
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

// Missing returns the layers that don't exist yet.
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

// storeDir is the directory, next to a layer's root, of a ready-made containerd store.
const storeDir = "containerd"

// Lower returns the overlay's lower directories for a new machine, topmost first, and the directory of the topmost ready-made
// containerd store, empty if no layer has one.
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

// Make makes the missing layers under the image lock, each in a temporary directory that is renamed when it is
// complete and synced. First it removes the remains of interrupted runs. If it made a layer, it prunes old ones.
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

// syncFS syncs the whole file system of dir.
func syncFS(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// IsBase reports whether the layer is a root file system.
func (l Layer) IsBase() bool { return strings.HasPrefix(l.Name, "base-") }
