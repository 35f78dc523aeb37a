package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/machine"
)

const (
	runDir  = "/run/containerd"
	etcdDir = "/var/lib/etcd"
)

// sharedDirs are directories in which other services keep data, too: Docker its images, podman its networks, Patroni its etcd.
func sharedDirs() []string {
	return []string{"/etc/cni/net.d", "/etc/kubernetes", "/var/lib/cni", machine.ContainerdRoot, runDir, etcdDir}
}

// lookHeld lists the content of the shared directories before the first apply, two levels deep, so that a reset leaves it there.
func lookHeld(root host.Root) map[string][]string {
	held := map[string][]string{}
	for _, dir := range sharedDirs() {
		for _, e := range readDir(root, dir) {
			held[dir] = append(held[dir], e.Name())
			if e.IsDir() {
				for _, below := range readDir(root, path.Join(dir, e.Name())) {
					held[dir] = append(held[dir], path.Join(e.Name(), below.Name()))
				}
			}
		}
	}
	return held
}

// readDir returns nothing for an unreadable directory.
func readDir(root host.Root, dir string) []os.DirEntry {
	entries, _ := os.ReadDir(root.Path(dir))
	return entries
}

// otherNamespaces reports whether containerd has containers or images outside of Kubernetes' namespace.
func otherNamespaces(ctx context.Context, a *Agent) bool {
	out, err := a.ctr(ctx, machine.Config{}, "namespaces", "list", "--quiet")
	return err == nil && slices.ContainsFunc(strings.Fields(string(out)), func(n string) bool { return n != "k8s.io" && n != "default" })
}

// isNode reports whether the host runs our kubelet and containerd. A gateway does not: Kubernetes files on its host belong to another cluster.
func (r *reset) isNode() bool {
	_, ok := r.st.Units[containerdUnit]
	return ok
}

// keepsStore reports whether containerd's store has data of other programs.
func (r *reset) keepsStore() bool {
	return !r.st.Units[containerdUnit].Own || len(r.st.Held[machine.ContainerdRoot]) > 0
}

// ownDirs returns the directories that a reset empties: directories that only a node's programs use, and the shared directories that the configuration uses.
func (r *reset) ownDirs() []string {
	var dirs []string
	if r.managesEtcd() && !r.o.KeepEtcd { // first: after a killed reset the next one must find etcd's manifest again
		dirs = append(dirs, etcdDir)
	}
	if r.isNode() {
		dirs = append(dirs, "/var/lib/kubelet", "/run/flannel", "/var/log/pods", "/var/log/containers", "/var/log/kubernetes", "/run/kubernetes",
			"/var/lib/cni", "/etc/cni/net.d", "/etc/kubernetes")
		if !r.keepsStore() {
			dirs = append(dirs, machine.ContainerdRoot)
		}
		if r.st.Units[containerdUnit].Own {
			dirs = append(dirs, runDir)
		}
	}
	return dirs
}

// managesEtcd reports whether etcd's data belong to the cluster: on a control plane that was applied, or that was only taken over.
func (r *reset) managesEtcd() bool {
	_, applied := r.st.Paths[etcdDir]
	return applied || r.st.Adopted != "" && r.isThere("/etc/kubernetes/manifests/etcd.yaml")
}

// emptyDir removes the entries of a directory, except for entries from before the first apply. It removes the directory if it is then empty, is not a
// mount point and did not exist before.
func (r *reset) emptyDir(dir string) error {
	removed, err := r.removeBelow(dir, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	action := "update" // other programs have data in it
	if s, managed := r.st.Paths[dir]; len(r.st.Held[dir]) == 0 && (!managed || !s.Found) {
		_ = os.Remove(r.path(dir)) // EBUSY for a mount point
		action = "remove"
	}
	if removed || action == "remove" {
		r.did("directory", dir, action)
	}
	return nil
}

// removeBelow removes the entries of dir/below that did not exist before, and reports whether there were any.
func (r *reset) removeBelow(dir, below string) (removed bool, err error) {
	entries, err := os.ReadDir(r.path(path.Join(dir, below)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err != nil {
		return false, fileError(err, "read the directory", path.Join(dir, below))
	}
	for _, e := range entries {
		p := path.Join(below, e.Name())
		switch {
		case !slices.Contains(r.st.Held[dir], p):
			removed = true
			if err := os.RemoveAll(r.path(path.Join(dir, p))); err != nil {
				return removed, fileError(err, "remove", path.Join(dir, p))
			}
		case e.IsDir() && below == "":
			more, err := r.removeBelow(dir, p)
			if removed = removed || more; err != nil && !errors.Is(err, fs.ErrNotExist) {
				return removed, err
			}
		}
	}
	return removed, nil
}
