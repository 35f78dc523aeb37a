package agent

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// roleConfig returns a config for a role: config already is a worker's; a gateway has neither containerd nor images.
func roleConfig(role string) machine.Config {
	c := config()
	for i := range c.Units {
		if c.Units[i].Name == containerdUnit {
			c.Units[i].Content = "[Service]\nExecStart=/ours\n[Install]\nWantedBy=multi-user.target\n"
		}
	}
	switch role {
	case "control plane":
		c.Directories = append(c.Directories, machine.Directory{Path: etcdDir, Mode: 0o700})
	case "gateway":
		c.Images = nil
		c.Units = slices.DeleteFunc(c.Units, func(u machine.Unit) bool { return u.Name == containerdUnit })
	}
	return c
}

// TestResetKeepsOthersData: data of other services in directories that a node shares outlive a reset in every role; the node's own data do not.
func TestResetKeepsOthersData(t *testing.T) {
	const k8sNode = "worker, control plane"
	dirs := map[string]struct {
		theirs string // of another service, from before the first apply
		ours   string // left by the node
		roles  string // roles whose reset removes our data
	}{
		etcdDir:                {"default/member/wal/0.wal", "member/wal/0.wal", "control plane"},
		"/var/lib/cni":         {"networks/podman/10.88.0.2", "networks/cbr0/10.244.1.2", k8sNode},
		"/etc/cni/net.d":       {"87-podman-bridge.conflist", "10-flannel.conflist", k8sNode},
		"/etc/kubernetes":      {"admin/of-another.conf", "kubelet.conf", k8sNode},
		machine.ContainerdRoot: {"io.containerd.metadata.v1.bolt/meta.db", "io.containerd.content.v1.content/blobs/sha256/x", ""},
		runDir:                 {"io.containerd.runtime.v2.task/moby/c1/config.json", "io.containerd.runtime.v2.task/k8s.io/c2/config.json", k8sNode},
		"/var/lib/kubelet":     {"", "pods/p/x", k8sNode},
	}
	for _, role := range []string{"control plane", "worker", "gateway"} {
		for _, host := range []struct{ before, containerd bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
			f := newFakeHost(t)
			if !host.containerd { // its store's content came with the image, or is lost+found
				testkit.Must(t, os.Remove(f.root+"/lib/systemd/system/containerd.service"))
			}
			others := func(dir string) bool {
				return host.before && dirs[dir].theirs != "" && (dir != machine.ContainerdRoot || host.containerd || role == "gateway")
			}
			for dir, c := range dirs {
				if host.before && c.theirs != "" {
					write(t, f.root+dir+"/"+c.theirs, "theirs")
				}
			}
			putBlobs(t, f)
			f.apply(t, roleConfig(role))
			for dir, c := range dirs {
				write(t, f.root+dir+"/"+c.ours, "ours")
			}
			testkit.Value(f.agent().Reset(t.Context(), ResetOptions{}))(t)
			for dir, c := range dirs {
				if host.before && c.theirs != "" && (f.content(dir+"/"+c.theirs) == "theirs") != others(dir) {
					t.Errorf("%s of a %s, %+v: earlier data exist: %v", dir, role, host, !others(dir))
				}
				gone := strings.Contains(c.roles, role) || dir == machine.ContainerdRoot && !others(dir) && role != "gateway"
				if got := f.content(dir+"/"+c.ours) == ""; got != gone {
					t.Errorf("%s of a %s, %+v: our data are gone: %v", dir, role, host, got)
				}
			}
		}
	}
}

// TestResetDropsImages: containerd removes the images of Kubernetes from a store that other programs share.
func TestResetDropsImages(t *testing.T) {
	f := newFakeHost(t)
	write(t, f.root+machine.ContainerdRoot+"/io.containerd.metadata.v1.bolt/meta.db", "theirs")
	putBlobs(t, f)
	f.apply(t, roleConfig("worker"))
	f.ran()
	testkit.Value(f.agent().Reset(t.Context(), ResetOptions{}))(t)
	calls := strings.Join(f.ran(), "\n")
	if !strings.Contains(calls, "ctr --address /run/containerd/containerd.sock -n k8s.io images delete --sync ") {
		t.Errorf("it ran\n%s", calls)
	}
}

// TestResetGivesContainerdBack: the host's own containerd, which our unit hid, runs again, now and at boot.
func TestResetGivesContainerdBack(t *testing.T) {
	f := newFakeHost(t)
	link := f.root + "/etc/systemd/system/multi-user.target.wants/containerd.service"
	testkit.Must(t, os.MkdirAll(f.root+"/etc/systemd/system/multi-user.target.wants", 0o755))
	testkit.Must(t, os.Symlink("/lib/systemd/system/containerd.service", link))
	f.save(fakeState{Images: map[string]string{}, Read: map[string]string{}, Units: map[string]fakeUnit{containerdUnit: {Active: "active", Starts: 1}}})
	putBlobs(t, f)
	f.apply(t, roleConfig("worker"))
	testkit.Value(f.agent().Reset(t.Context(), ResetOptions{}))(t)
	if u := f.load().Units[containerdUnit]; u.Active != "active" || u.Def != "" {
		t.Errorf("containerd is %s, by the unit %q", u.Active, u.Def)
	}
	if to, err := os.Readlink(link); err != nil || to != "/lib/systemd/system/containerd.service" {
		t.Errorf("at boot it starts by %q, %v", to, err)
	}
}

// TestAdoptKeepsOthersStore: the containerd of an adopted host serves Docker, too.
func TestAdoptKeepsOthersStore(t *testing.T) {
	for others, want := range map[string]bool{"": false, "moby\n": true} {
		f := aNode(t)
		write(t, f.root+machine.ContainerdRoot+"/io.containerd.metadata.v1.bolt/meta.db", "both's")
		f.namespaces = "k8s.io\n" + others
		testkit.Must(t, f.agent().Adopt(t.Context(), "demo-1"))
		putBlobs(t, f)
		f.apply(t, roleConfig("worker"))
		testkit.Value(f.agent().Reset(t.Context(), ResetOptions{}))(t)
		if got := f.content(machine.ContainerdRoot+"/io.containerd.metadata.v1.bolt/meta.db") != ""; got != want {
			t.Errorf("with namespaces %q, the store exists: %v", f.namespaces, got)
		}
	}
}

// TestResetOfAMaskedUnit: a unit that ran although it was masked can't be started again, and the reset completes nevertheless.
func TestResetOfAMaskedUnit(t *testing.T) {
	f := newFakeHost(t)
	testkit.Must(t, os.Symlink("/dev/null", f.root+"/etc/systemd/system/"+containerdUnit))
	f.save(fakeState{Images: map[string]string{}, Read: map[string]string{}, Units: map[string]fakeUnit{containerdUnit: {Active: "active", Starts: 1}}})
	putBlobs(t, f)
	f.apply(t, roleConfig("worker"))
	testkit.Value(f.agent().Reset(t.Context(), ResetOptions{}))(t)
	if got := f.content("/etc/systemd/system/" + containerdUnit); got != "link to /dev/null" || f.content(machine.StateKey) != "" {
		t.Errorf("the unit file is %q, or the agent's state is left", got)
	}
}
