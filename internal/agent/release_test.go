package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReleaseLeavesWhatRuns: programs are files, originals lie beside the files that replaced them, units run unchanged, and no trace of Naupegos
// remains.
func TestReleaseLeavesWhatRuns(t *testing.T) {
	f := newFakeHost(t)
	write(t, f.root+"/etc/app/app.conf", "the administrator's")
	putBlobs(t, f)
	f.apply(t, config())
	units := f.load().Units
	conf := f.content("/etc/app/app.conf")
	f.ran()
	write(t, f.root+machine.AgentDir+"/0123/naupegos-agent", "x")
	for range 2 {
		testkit.Value(f.agent().Release(t.Context(), ReleaseOptions{}))(t)
	}
	if info := testkit.Value(os.Lstat(f.root + "/usr/local/bin/app"))(t); !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || f.content("/usr/local/bin/app") != string(binaryBlob) {
		t.Errorf("the program is %v", info.Mode())
	}
	if f.content("/etc/app/app.conf") != conf || f.content("/etc/app/app.conf"+beforeSuffix) != "the administrator's" {
		t.Error("a file was changed, or its original is lost")
	}
	for _, gone := range []string{machine.StateDir, "/usr/local/lib/naupegos"} {
		if _, err := os.Stat(f.root + gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	for name, was := range units {
		if now := f.load().Units[name]; now.Active != was.Active || now.Starts != was.Starts {
			t.Errorf("%s is %+v, was %+v", name, now, was)
		}
	}
	if calls := strings.Join(f.ran(), "\n"); strings.Contains(calls, "stop") || strings.Contains(calls, "start") {
		t.Errorf("it ran\n%s", calls)
	}
}

func TestReleaseKeepsTheAgentThatSomethingRuns(t *testing.T) {
	f := applied(t)
	write(t, f.root+machine.AgentDir+"/0123/naupegos-agent", "x")
	testkit.Value(f.agent().Release(t.Context(), ReleaseOptions{KeepAgent: true}))(t)
	if f.content(machine.AgentDir+"/0123/naupegos-agent") != "x" {
		t.Error("the agent is gone")
	}
}

// TestReleaseOfHalfAMachine: a release removes the remains of an unfinished apply.
func TestReleaseOfHalfAMachine(t *testing.T) {
	f := applied(t)
	st := testkit.Value(f.agent().loadState())(t)
	st.Digest = ""
	testkit.Must(t, f.agent().saveState(st))
	_, err := f.agent().Release(t.Context(), ReleaseOptions{})
	testkit.Fails(t, err, fail.Conflict, "half configured")
}
