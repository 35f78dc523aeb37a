package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// aNode returns a host with a running kubelet and its files, which others installed.
func aNode(t *testing.T) *fakeHost {
	f := newFakeHost(t)
	write(t, f.root+"/etc/systemd/system/kubelet.service", "[Service]\n[Install]\nWantedBy=multi-user.target\n")
	write(t, f.root+"/etc/kubernetes/manifests/etcd.yaml", "theirs")
	write(t, f.root+"/etc/app/app.conf", "the administrator's")
	f.save(fakeState{Images: map[string]string{}, Read: map[string]string{}, Units: map[string]fakeUnit{"kubelet.service": {Active: "active", Starts: 1}, "containerd.service": {Active: "active", Starts: 1}}})
	return f
}

// TestAdopt: a host that is taken over is no longer fresh, nothing on it is changed, and no other cluster can take it over.
func TestAdopt(t *testing.T) {
	f := aNode(t)
	for range 2 {
		testkit.Must(t, f.agent().Adopt(t.Context(), "demo-1"))
	}
	if calls := strings.Join(f.ran(), "\n"); strings.Contains(calls, "stop") || strings.Contains(calls, "start ") || strings.Contains(calls, "daemon-reload") {
		t.Errorf("it ran\n%s", calls)
	}
	if f.content("/etc/kubernetes/manifests/etcd.yaml") != "theirs" {
		t.Error("a file was changed")
	}
	if st := testkit.Value(f.agent().loadState())(t); st.Adopted != "demo-1" || len(st.Units) != 2 || st.Machine != "" {
		t.Errorf("the state is %+v", st)
	}
	testkit.Fails(t, f.agent().Adopt(t.Context(), "demo-2"), fail.Conflict, "taken over with cluster demo-1")
	testkit.Value(f.agent().Release(t.Context(), ReleaseOptions{}))(t)
	testkit.Must(t, f.agent().Adopt(t.Context(), "demo-2"))
}

// TestAdoptRefuses: Adopt refuses a host of another cluster, and a host that is not a node.
func TestAdoptRefuses(t *testing.T) {
	testkit.Fails(t, applied(t).agent().Adopt(t.Context(), "demo-1"), fail.Conflict, "machine demo-w-1 of another cluster")
	testkit.Fails(t, newFakeHost(t).agent().Adopt(t.Context(), "demo-1"), fail.NotReady, "does not run")
}

// TestAdoptedHostLeaves: when an adopted host leaves the cluster, files of the cluster are neither put back nor kept beside released ones; the host's
// own files are. kubelet, which ran before, does not run again.
func TestAdoptedHostLeaves(t *testing.T) {
	c := config()
	c.Files = append(c.Files, machine.File{Path: "/etc/kubernetes/manifests/etcd.yaml", Mode: 0o600, Content: []byte("ours")})
	c.Units = append(c.Units, machine.Unit{Name: "kubelet.service", Content: "[Service]\nExecStart=/k\n[Install]\nWantedBy=multi-user.target\n", Enabled: true, Active: true})
	for verb, leave := range map[string]func(*Agent) error{
		"reset":   func(a *Agent) error { _, err := a.Reset(t.Context(), ResetOptions{}); return err },
		"release": func(a *Agent) error { _, err := a.Release(t.Context(), ReleaseOptions{}); return err },
	} {
		f := aNode(t)
		testkit.Must(t, f.agent().Adopt(t.Context(), "demo-1"))
		putBlobs(t, f)
		f.apply(t, c)
		testkit.Must(t, leave(f.agent()))
		if verb == "release" {
			if _, err := os.Stat(f.root + "/etc/kubernetes/manifests/etcd.yaml" + beforeSuffix); err == nil || f.content("/etc/app/app.conf"+beforeSuffix) == "" {
				t.Errorf("the former manifest lies beside the other (%v), or the host's own original does not", err)
			}
			continue
		}
		if _, err := os.Stat(f.root + "/etc/kubernetes/manifests/etcd.yaml"); err == nil || f.content("/etc/app/app.conf") != "the administrator's" {
			t.Errorf("the former manifest was put back (%v), or the host's own file was not", err)
		}
		if f.load().Units["kubelet.service"].Active == "active" {
			t.Error("kubelet runs again")
		}
	}
}

// TestAdoptedLink: with Kubespray, /etc/kubernetes/pki is a link to the directory with the files. They are replaced there, and the link stays.
func TestAdoptedLink(t *testing.T) {
	f := aNode(t)
	write(t, f.root+"/etc/kubernetes/ssl/ca.crt", "theirs")
	testkit.Must(t, os.Symlink("ssl", f.root+"/etc/kubernetes/pki"))
	testkit.Must(t, f.agent().Adopt(t.Context(), "demo-1"))
	c := config()
	c.Directories = append(c.Directories, machine.Directory{Path: "/etc/kubernetes/pki", Mode: 0o755}, machine.Directory{Path: "/etc/kubernetes/pki/etcd", Mode: 0o755})
	c.Files = append(c.Files, machine.File{Path: "/etc/kubernetes/pki/ca.crt", Mode: 0o644, Content: []byte("ours")}, machine.File{Path: "/etc/kubernetes/pki/etcd/ca.crt", Mode: 0o644, Content: []byte("ours")})
	putBlobs(t, f)
	f.apply(t, c)
	if f.content("/etc/kubernetes/ssl/ca.crt") != "ours" || f.content("/etc/kubernetes/ssl/etcd/ca.crt") != "ours" {
		t.Error("the files behind the link are not ours")
	}
	if to, err := os.Readlink(f.root + "/etc/kubernetes/pki"); err != nil || to != "ssl" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if r := f.apply(t, c); len(r.Changes) > 0 {
		t.Errorf("a second apply changes %+v", r.Changes)
	}
	_, err := f.agent().Reset(t.Context(), ResetOptions{})
	testkit.Must(t, err)
	if _, err := os.Stat(f.root + "/etc/kubernetes/ssl/ca.crt"); err == nil {
		t.Error("a certificate of the cluster is left")
	}
}

// TestResetOfATakenOverEtcd: a reset of a control plane that was only taken over removes etcd's data, also if an attempt was killed after any of its
// directories.
func TestResetOfATakenOverEtcd(t *testing.T) {
	for emptied := 0; ; emptied++ {
		f := aNode(t)
		write(t, f.root+etcdDir+"/member/wal/0.wal", "the cluster's")
		testkit.Must(t, f.agent().Adopt(t.Context(), "demo-1"))
		killed := &reset{Agent: f.agent(), st: testkit.Value(f.agent().loadState())(t)}
		dirs := killed.ownDirs()
		if emptied > len(dirs) {
			break
		}
		for _, dir := range dirs[:emptied] {
			testkit.Must(t, killed.emptyDir(dir))
		}
		testkit.Value(f.agent().Reset(t.Context(), ResetOptions{}))(t)
		if f.content(etcdDir+"/member/wal/0.wal") != "" {
			t.Errorf("killed after %q: etcd's data are left", dirs[:emptied])
		}
	}
}
