package agent

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestSettled(t *testing.T) {
	f, began := newFakeHost(t), time.Now().Add(-10*time.Second)
	write(t, f.root+"/manifest", "")
	programs := map[string]string{"server": "/manifest"}
	check := func(name string, written time.Time, want string) {
		t.Helper()
		testkit.Must(t, os.Chtimes(f.root+"/manifest", written, written))
		err := f.agent().Settled(programs, time.Minute)
		if want == "" && err != nil || want != "" && (fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	check("nothing runs", began.Add(-time.Hour), "server does not run")
	f.process(t, 7, "/usr/local/bin/server\x00--port=1", began)
	f.process(t, 8, "other\x00server", time.Now())
	check("it was started by this file", began.Add(-time.Second), "")
	check("the file was changed since", began.Add(time.Second), "server has not been restarted since manifest was changed")
	f.process(t, 9, "server\x00--port=2", began.Add(2*time.Second)) // while the first one still ends
	check("it was started again", began.Add(time.Second), "")

	f = newFakeHost(t)
	write(t, f.root+"/manifest", "")
	f.process(t, 7, "server", began.Add(-time.Hour))
	check("the change meant nothing to the program's starter", time.Now().Add(-2*time.Minute), "")
}

// TestBehind: a dry run without changes reports programs that a running unit has not started again since their files were written.
func TestBehind(t *testing.T) {
	const pod = "/etc/app/server.yaml"
	c := config()
	c.Files = append(c.Files, machine.File{Path: pod, Mode: 0o600, Content: []byte("one")})
	c.Units[1].Starts = []machine.Start{{File: pod}}
	f, began := newFakeHost(t), time.Now().Add(-10*time.Second)
	putBlobs(t, f)
	f.apply(t, c)
	behind := func(written time.Time, want string) {
		t.Helper()
		testkit.Must(t, os.Chtimes(f.root+pod, written, written))
		r, err := f.agent().Apply(t.Context(), c, true)
		testkit.Must(t, err)
		if got := strings.Join(r.Behind, "; "); len(r.Changes) > 0 || got != want {
			t.Errorf("changes %v, behind %q, want %q", r.Changes, got, want)
		}
	}
	behind(began, "") // it does not run, for other reasons
	f.process(t, 7, "server", began)
	behind(began.Add(time.Second), "server has not been restarted since server.yaml was changed")
	behind(began.Add(-time.Second), "")
}

// process adds a process to the fake's /proc.
func (f *fakeHost) process(t *testing.T, pid int, cmdline string, began time.Time) {
	t.Helper()
	var up unix.Timespec
	testkit.Must(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &up))
	const ticks = 100 // clock ticks per second in the kernel's start times (USER_HZ)
	at := (time.Duration(up.Nano()) - time.Since(began)) * ticks / time.Second
	dir := fmt.Sprintf("%s/proc/%d", f.root, pid)
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	write(t, dir+"/cmdline", cmdline+"\x00")
	write(t, dir+"/stat", fmt.Sprintf("%d (a ) name) S%s %d 0 0\n", pid, strings.Repeat(" 0", 18), at))
}
