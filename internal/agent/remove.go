package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// retireUnits stops and disables units that are no longer wanted, unless they were stopped and disabled before Naupegos.
func (a *Agent) retireUnits(ctx context.Context, st *state, names []string) error {
	states, err := a.unitStates(ctx, names)
	if err != nil {
		return err
	}
	var stop []string
	var disable []enableOp
	for _, n := range names {
		now, was := states[n], st.Units[n]
		if now.running() && (was.Own || !was.WasActive) {
			stop = append(stop, n)
		}
		// If an earlier run was killed between removing the file and reloading systemd, it had already disabled the unit: systemd remembers the unit
		// as it was.
		if now.enabled() && (was.Own || !was.WasEnabled) && a.isThere(now.fragment) {
			disable = append(disable, enableOp{unit: machine.Unit{Name: n}, from: now.fragment})
		}
	}
	slices.Reverse(stop)
	if len(stop) > 0 {
		if _, err := a.systemctl(ctx, append([]string{"stop", "--"}, stop...)...); err != nil {
			return unitFailure(ctx, err, "stop "+strings.Join(stop, " "))
		}
	}
	return a.enable(ctx, disable)
}

// isThere reports whether a path exists.
func (a *Agent) isThere(p string) bool {
	_, err := os.Lstat(a.path(p))
	return p != "" && err == nil
}

// removePaths removes managed paths, children before parents: files, links, and empty directories that Naupegos created. It restores the former
// content.
func (a *Agent) removePaths(st *state, paths []string) error {
	dirs := map[string]bool{}
	for _, p := range paths {
		s := st.Paths[p]
		if s.Kind == "directory" {
			if err := a.removeDirectory(p, s); err != nil {
				return err
			}
			continue
		}
		restored := false
		if s.Found {
			var err error
			if restored, err = a.restoreOriginal(p); err != nil {
				return err
			}
		}
		if !restored {
			if err := removePath(a.path(p), p); err != nil {
				return err
			}
		}
		if err := removePath(a.tmpName(p), p); err != nil {
			return err
		}
		if dir := filepath.Dir(a.path(p)); host.IsDir(dir) {
			dirs[dir] = true
		}
		if strings.HasSuffix(filepath.Dir(p), ".service.d") {
			_ = os.Remove(a.path(filepath.Dir(p))) // an empty drop-in directory has no use; a non-empty one stays
		}
	}
	for d := range dirs {
		if !host.IsDir(d) {
			delete(dirs, d)
		}
	}
	return a.syncDirs(dirs)
}

func (a *Agent) removeDirectory(p string, s stPath) error {
	if s.Found {
		return a.giveBack(p, s)
	}
	err := os.Remove(a.path(p))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY) {
		return nil
	}
	return fileError(err, "remove the directory", p)
}

// giveBack restores the mode and owner that a directory had before Naupegos, if the directory still exists.
func (a *Agent) giveBack(p string, s stPath) error {
	if !host.IsDir(a.path(p)) {
		return nil
	}
	return a.attributes(&op{path: p, mode: s.Mode, uid: s.UID, gid: s.GID})
}

// removePath removes one file or link. A missing one is not an error.
func removePath(real, where string) error {
	if err := os.Remove(real); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return fileError(err, "remove", where)
	}
	return nil
}

// dropBlobs removes blobs that only the former configuration needed. It is best effort, because they only waste space.
func (a *Agent) dropBlobs(before, now *state) {
	for _, digest := range before.Blobs {
		if !slices.Contains(now.Blobs, digest) && checkDigest(digest) == nil {
			_ = os.Remove(a.blobPath(digest))
		}
	}
}

func isSocket(real string) bool {
	info, err := os.Stat(real)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

func interrupted(err error) error {
	return fail.Wrap(fail.Interrupted, err, "stopped between two actions").Do("run it again: it continues from here")
}

// unitFailure wraps an error of systemctl; nil stays nil.
func unitFailure(ctx context.Context, err error, what string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return interrupted(ctx.Err())
	}
	return fail.Wrap(kindOr(err, fail.Internal), err, "%s", what)
}
