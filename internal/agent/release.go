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

// ReleaseOptions says what remains after a release.
type ReleaseOptions struct {
	KeepAgent bool // keep the agents on the host, because something that remains runs one
}

// beforeSuffix is the suffix of the original of a replaced file, which is kept beside it.
const beforeSuffix = ".before-naupegos"

// Release leaves everything that was applied on the host, which continues to work as if its owner had set it up, and forgets it: programs become
// regular files instead of links to blobs, and originals are put beside the files that replaced them. Nothing is restarted. It may be repeated, and
// may be killed.
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
	_ = os.Remove(filepath.Dir(a.path(machine.AgentDir))) // stays if others put files there
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
		return done, nil // not a link, or not into a removed directory
	}
	if err := a.ownFile(p, target); err != nil {
		return done, err
	}
	return append(done, machine.Change{Kind: "binary", Name: p, Action: "update", Why: "becomes a file of its own"}), nil
}

// ownFile atomically replaces a link at p by its target file. It takes space only if they are on different file systems.
func (a *Agent) ownFile(p, target string) error {
	tmp := a.tmpName(p)
	if err := removePath(tmp, p); err != nil {
		return err
	}
	err := os.Link(a.path(target), tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return fileError(err, "inspect", p)
	}
	if err != nil { // on another file system
		return a.copyFile(target, p)
	}
	if err := os.Rename(tmp, a.path(p)); err != nil {
		_ = os.Remove(tmp)
		return fileError(err, "put in place", p)
	}
	return a.syncDirs(map[string]bool{filepath.Dir(tmp): true})
}

// adoptedUnits returns the units that run on a node made by kubeadm.
func adoptedUnits() []string { return []string{containerdUnit, "kubelet.service"} }

// Adopt records that the host belongs to a cluster that was not made by Naupegos but is managed by it from now on. It writes only the agent's own
// state, and may be repeated. It returns fail.Conflict if the host belongs to another cluster.
func (a *Agent) Adopt(ctx context.Context, cluster string) error {
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := a.loadState()
	if err != nil {
		return err
	}
	switch {
	case st.Adopted == cluster:
		return nil
	case st.Adopted != "":
		return fail.New(fail.Conflict, "the host was taken over with cluster %s", st.Adopted).Do("naupegos release releases that one")
	case len(st.Units) > 0:
		return fail.New(fail.Conflict, "the host is machine %s of another cluster that naupegos keeps", st.Machine).Do("naupegos release releases that one")
	}
	states, err := a.unitStates(ctx, adoptedUnits())
	if err != nil {
		return err
	}
	for _, name := range adoptedUnits() {
		s := states[name]
		if !s.running() {
			return fail.New(fail.NotReady, "%s does not run", name).At(name).Do("a host is taken over while it is a node: start it, then try again")
		}
		st.Units[name] = stUnit{WasEnabled: s.enabled(), WasActive: true}
	}
	st.Units["kubelet.service"] = stUnit{} // a host that leaves the cluster is no longer a node of it
	st.Adopted = cluster
	if otherNamespaces(ctx, a) {
		held := lookHeld(a.root)
		st.Held = map[string][]string{machine.ContainerdRoot: held[machine.ContainerdRoot], runDir: held[runDir]}
	}
	return a.saveState(st)
}

// belongsToNode reports whether a path on an adopted host belongs to its cluster, so that it is not put back as an original.
func belongsToNode(p string) bool {
	return strings.HasPrefix(p, "/etc/kubernetes/") || strings.HasPrefix(p, "/var/lib/kubelet/")
}
