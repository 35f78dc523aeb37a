package agent

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// killPods ends every process in a kubepods cgroup, and the shims that would keep their mounts.
func (r *reset) killPods(ctx context.Context) error {
	if !r.isNode() {
		return nil // no pod of ours has run here
	}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for told := false; ; told = true {
		pids := r.podProcesses()
		if len(pids) == 0 {
			r.removeCgroups()
			return nil
		}
		if !told {
			r.did("process", strconv.Itoa(len(pids))+" processes of pods", "stop")
		}
		var left []string
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended meanwhile; only its end counts
			left = append(left, strconv.Itoa(pid))
		}
		select {
		case <-ctx.Done():
			return interrupted(ctx.Err())
		case <-deadline.C:
			return errStillThere(left)
		case <-poll.C:
		}
	}
}

// podProcesses returns the processes in pods' cgroups, and containerd's shims for Kubernetes.
func (r *reset) podProcesses() []int {
	var pids []int
	entries, _ := os.ReadDir(r.path("/proc"))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := "/proc/" + e.Name()
		if strings.HasPrefix(r.root.Read(dir+"/stat"), e.Name()+" (") && strings.Contains(r.root.Read(dir+"/stat"), ") Z ") {
			continue // a zombie: its parent has not reaped it yet
		}
		args := strings.Split(r.root.Read(dir+"/cmdline"), "\x00")
		shim := (strings.HasSuffix(args[0], "/containerd-shim-runc-v2") || strings.HasPrefix(args[0], machine.BlobDir+"/")) && // by its link, or by the link's target
			slices.Contains(args, "k8s.io") && r.ourPIDs(dir)
		if shim || inPod(r.root.Read(dir+"/cgroup")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// inPod reports whether /proc/PID/cgroup names a pod's cgroup of this host. Pods of machines nested in this host have longer paths.
func inPod(cgroup string) bool {
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (strings.HasPrefix(f[2], "/kubepods/") || strings.HasPrefix(f[2], "/kubepods.slice/")) {
			return true
		}
	}
	return false
}

// ourPIDs reports whether a process is in our PID namespace: shims of machines nested in this host are not.
func (r *reset) ourPIDs(dir string) bool {
	theirs, err1 := os.Readlink(r.path(dir + "/ns/pid"))
	ours, err2 := os.Readlink(r.path("/proc/self/ns/pid"))
	return err1 == nil && err2 == nil && theirs == ours
}

// removeCgroups removes empty kubepods cgroups in every hierarchy, children first. It is best effort, because an empty cgroup does no harm.
func (r *reset) removeCgroups() {
	var remove func(dir string)
	remove = func(dir string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() {
				remove(dir + "/" + e.Name())
			}
		}
		_ = os.Remove(dir)
	}
	top, _ := os.ReadDir(r.path(r.cgroups))
	for _, e := range top {
		for _, name := range []string{"kubepods", "kubepods.slice"} {
			for _, dir := range []string{r.cgroups + "/" + name, r.cgroups + "/" + e.Name() + "/" + name} {
				if host.IsDir(r.path(dir)) {
					remove(r.path(dir))
				}
			}
		}
	}
}

// dropContainers removes the containers of Kubernetes from containerd's store, which may outlive the reset.
func (r *reset) dropContainers(ctx context.Context) error {
	if !r.isNode() || !isSocket(r.path(containerdSocket)) || !r.keepsStore() {
		return nil // the whole store is removed, or containerd is not installed
	}
	out, err := r.ctr(ctx, r.config(), "containers", "list", "--quiet")
	if err != nil {
		return nil // containerd does not run: its store is kept for its owner
	}
	ids := strings.Fields(string(out))
	if len(ids) == 0 {
		return r.dropImages(ctx)
	}
	// Killed shims leave tasks without a process. Deleting such a task fails because it has no shim.
	_, _ = r.ctr(ctx, r.config(), append([]string{"tasks", "delete", "--force"}, ids...)...)
	if _, err := r.ctr(ctx, r.config(), append([]string{"containers", "delete"}, ids...)...); err != nil {
		return unitFailure(ctx, err, "remove containers")
	}
	r.did("container", strconv.Itoa(len(ids))+" containers", "remove")
	return r.dropImages(ctx)
}

// dropImages removes the images of Kubernetes from a store that a configuration of ours filled and that holds data of others. With --sync,
// their layers go, too.
func (r *reset) dropImages(ctx context.Context) error {
	if !r.st.Units[containerdUnit].Own {
		return nil // the distribution's own containerd, which continues to serve others
	}
	out, err := r.ctr(ctx, r.config(), "images", "list", "--quiet")
	if err != nil {
		return unitFailure(ctx, err, "list container images")
	}
	names := strings.Fields(string(out))
	if len(names) == 0 {
		return nil
	}
	if _, err := r.ctr(ctx, r.config(), append([]string{"images", "delete", "--sync"}, names...)...); err != nil {
		return unitFailure(ctx, err, "remove container images")
	}
	r.did("image", strconv.Itoa(len(names))+" images", "remove")
	return nil
}

// unmount detaches the mounts of kubelet and containerd, deepest first. It keeps mounts at the directories themselves, because they belong to the
// machine's own setup.
func (r *reset) unmount(context.Context) error {
	if !r.isNode() {
		return nil
	}
	under := []string{"/var/lib/kubelet/", "/run/netns/cni-", "/var/run/netns/cni-", "/run/flannel/",
		runDir + "/io.containerd.grpc.v1.cri/", runDir + "/io.containerd.runtime.v2.task/k8s.io/"}
	if !r.keepsStore() {
		under = append(under, runDir+"/", machine.ContainerdRoot+"/")
	}
	var points []string
	for line := range strings.Lines(r.root.Read("/proc/self/mountinfo")) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		p := unescape(f[4])
		if slices.ContainsFunc(under, func(u string) bool { return strings.HasPrefix(p, u) }) {
			points = append(points, p)
		}
	}
	slices.Reverse(points) // later mounts lie over or in earlier ones
	for _, p := range points {
		if err := unix.Unmount(r.path(p), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL && err != unix.ENOENT {
			return fail.Wrap(fail.Refused, err, "unmount").At(p).Do("end what uses it, then run again")
		}
		r.did("mount", p, "remove")
	}
	entries, _ := os.ReadDir(r.path("/run/netns"))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "cni-") {
			if err := removePath(r.path("/run/netns/"+e.Name()), "/run/netns/"+e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
