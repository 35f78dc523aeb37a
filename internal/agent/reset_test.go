package agent

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestResetLeavesTheHostAsItWas(t *testing.T) {
	f := newFakeHost(t)
	write(t, f.root+"/etc/app/other.conf", "the administrator's")
	write(t, f.root+"/var/lib/naupegos-other/x", "x")
	before := f.tree(t)
	putBlobs(t, f)
	f.apply(t, config())
	write(t, f.root+"/var/lib/kubelet/pods/a/b", "x")
	write(t, f.root+"/etc/kubernetes/admin.conf", "x")
	f.ran()
	if _, err := f.agent().Reset(t.Context(), ResetOptions{}); err != nil {
		t.Fatal(err)
	}
	after := f.tree(t)
	for _, ours := range []string{"/etc/systemd/system/multi-user.target.wants drwxr-xr-x \"\"\n"} { // systemd keeps it, too
		after = strings.ReplaceAll(after, ours, "")
	}
	if after != before {
		t.Errorf("left:\n%s\nwas:\n%s", after, before)
	}
	for name, u := range f.load().Units {
		if u.Active == "active" {
			t.Errorf("%s still runs", name)
		}
	}
	calls := f.ran()
	if i, j := slices.Index(calls, "systemctl stop -- lb.service app.service"), slices.Index(calls, "systemctl stop -- containerd.service"); i < 0 || j < i {
		t.Errorf("units were stopped in the wrong order: %q", calls)
	}
	if _, err := f.agent().Reset(t.Context(), ResetOptions{}); err != nil {
		t.Errorf("second reset: %v", err)
	}
}

func TestResetTouchesNothingOnAHostThatIsNotOurs(t *testing.T) {
	f := newFakeHost(t)
	write(t, f.root+"/var/lib/kubelet/config.yaml", "theirs")
	write(t, f.root+"/etc/kubernetes/admin.conf", "theirs")
	before := f.tree(t)
	if _, err := f.agent().Reset(t.Context(), ResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := f.tree(t); got != before || len(f.ran()) > 0 {
		t.Errorf("changed:\n%s\nwas:\n%s", got, before)
	}
}

func TestResetKeepsWhatItIsTold(t *testing.T) {
	f := applied(t)
	write(t, f.root+"/var/lib/etcd/member/wal", "x")
	if _, err := f.agent().Reset(t.Context(), ResetOptions{KeepBlobs: true, KeepEtcd: true}); err != nil {
		t.Fatal(err)
	}
	if has, _ := f.agent().HasBlob(digestOf(binaryBlob), 0); !has || f.content("/var/lib/etcd/member/wal") == "" {
		t.Error("blobs or etcd's data are gone")
	}
	if f.content(machine.StateKey) != "" {
		t.Error("the agent's state is still there")
	}
}

// TestResetKeepsTheWayIn: the reset keeps a file by which the operator logs in, even if it replaced another file.
func TestResetKeepsTheWayIn(t *testing.T) {
	f := newFakeHost(t)
	write(t, f.root+"/etc/app/app.conf", "the first key")
	putBlobs(t, f)
	f.apply(t, config())
	now := f.content("/etc/app/app.conf")
	if _, err := f.agent().Reset(t.Context(), ResetOptions{Keep: []string{"/etc/app/app.conf"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.content("/etc/app/app.conf"); got != now || got == "the first key" {
		t.Errorf("it is %q", got)
	}
}

// TestResetWhereAUnitsFileHasGone: a killed agent removed the file and did not reload systemd.
func TestResetWhereAUnitsFileHasGone(t *testing.T) {
	f := applied(t)
	testkit.Must(t, os.Remove(f.root+machine.UnitPath("app.service")))
	f.fail = func(argv []string) error {
		if line := strings.Join(argv, " "); strings.Contains(line, "disable") && strings.Contains(line, "app.service") {
			return &CommandError{Argv: argv, Code: 1, Stderr: "Failed to disable unit: Unit file app.service does not exist."}
		}
		return nil
	}
	if _, err := f.agent().Reset(t.Context(), ResetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestInPod(t *testing.T) {
	for cgroup, want := range map[string]bool{
		"0::/kubepods/burstable/pod1/c":                             true,
		"12:cpu:/x\n3:memory:/kubepods.slice/kubepods-pod1.slice/c": true,
		"0::/naupegos/id/cp-1/kubepods/pod1":                        false, // a machine nested in this host
		"0::/system.slice/kubelet.service":                          false,
		"":                                                          false,
	} {
		if got := inPod(cgroup); got != want {
			t.Errorf("%q: %v", cgroup, got)
		}
	}
}

// FuzzUnescape: unescape restores a path that the kernel has escaped in mountinfo.
func FuzzUnescape(f *testing.F) {
	f.Add("/var/lib/kubelet/pods/a b\\040\tc")
	f.Add(`\\134040`)
	f.Fuzz(func(t *testing.T, path string) {
		written := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path) // as the kernel's mangle does
		if got := unescape(written); got != path {
			t.Fatalf("%q is read as %q", path, got)
		}
	})
}
