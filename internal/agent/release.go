package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// ReleaseOptions says what outlives a release.
type ReleaseOptions struct {
	KeepAgent bool // the agents that lie here: something that stays runs one
}

// beforeSuffix is what the original of a file that has been replaced is called afterwards, beside it.
const beforeSuffix = ".before-naupegos"

// Release leaves all that was applied to the host, where it works on as what its owner would have made, and forgets it: programs become files
// of their own instead of links to blobs, originals of files lie beside those that have replaced them. Nothing is restarted. It may be
// repeated, and may be killed.
func (a *Agent) Release(ctx context.Context, o ReleaseOptions) ([]machine.Change, error) {
	unlock, err := a.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	st, err := a.loadState()
	if err != nil {
		return nil, err
	}
	if st.Machine != "" && st.Digest == "" {
		return nil, fail.New(fail.Conflict, "the machine is half configured: an apply was cut short").Do("naupegos apply first")
	}
	var done []machine.Change
	for _, p := range slices.Sorted(maps.Keys(st.Paths)) {
		if err := ctx.Err(); err != nil {
			return done, interrupted(err)
		}
		changes, err := a.releasePath(p, st.Paths[p])
		if done = append(done, changes...); err != nil {
			return done, err
		}
	}
	own := []string{machine.StateDir}
	if !o.KeepAgent {
		own = append(own, machine.AgentDir)
	}
	for _, p := range own {
		if err := os.RemoveAll(a.path(p)); err != nil {
			return done, fileError(err, "remove", p)
		}
		done = append(done, machine.Change{Kind: "directory", Name: p, Action: "remove"})
	}
	_ = os.Remove(filepath.Dir(a.path(machine.AgentDir))) // what somebody has put there keeps it
	return done, nil
}

func (a *Agent) releasePath(p string, s stPath) (done []machine.Change, err error) {
	if s.Found && s.Kind != "directory" {
		kept, err := a.look(original(p))
		if err != nil {
			return nil, err
		}
		if kept != nil {
			if err := a.copyFile(original(p), p+beforeSuffix); err != nil {
				return nil, err
			}
			done = append(done, machine.Change{Kind: "file", Name: p + beforeSuffix, Action: "create"})
		}
	}
	target, err := os.Readlink(a.path(p))
	if err != nil || !strings.HasPrefix(target, machine.BlobDir+"/") || strings.HasPrefix(p, machine.StateDir+"/") {
		return done, nil // no link, or not to what goes
	}
	if err := a.ownFile(p, target); err != nil {
		return done, err
	}
	return append(done, machine.Change{Kind: "binary", Name: p, Action: "update", Why: "becomes a file of its own"}), nil
}

// ownFile puts the file that a link at p leads to in the link's place, in one step. It takes space only where both lie on different file systems.
func (a *Agent) ownFile(p, target string) error {
	tmp := a.tmpName(p)
	if err := removePath(tmp, p); err != nil {
		return err
	}
	err := os.Link(a.path(target), tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return fileError(err, "find what lies at", p)
	}
	if err != nil { // another file system
		return a.copyFile(target, p)
	}
	if err := os.Rename(tmp, a.path(p)); err != nil {
		_ = os.Remove(tmp)
		return fileError(err, "put in place", p)
	}
	return a.syncDirs(map[string]bool{filepath.Dir(tmp): true})
}
