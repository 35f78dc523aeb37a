package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestMain lets the test binary act as the agent.
func TestMain(m *testing.M) {
	if os.Getenv("NAUPEGOS_AGENT_TEST") != "" {
		main()
	}
	os.Exit(m.Run())
}

func call(t *testing.T, stdin string, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	root := t.TempDir()
	testkit.Must(t, os.Mkdir(filepath.Join(root, "proc"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(root, "proc/meminfo"), []byte("MemTotal: 1024 kB\n"), 0o600))
	c := &command{in: strings.NewReader(stdin), out: &o, err: &e, agent: agent.New(agent.Options{Root: root, Runner: agent.Exec{}})}
	return c.report(c.dispatch(t.Context(), args)), o.String(), e.String()
}

func TestVerbs(t *testing.T) {
	digest := "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	cases := []struct {
		stdin, args string
		status      int
		out, err    string
	}{
		{"", "help", 0, "naupegos-agent apply", ""},
		{"", "", 0, "naupegos-agent apply", ""},
		{"", "apply --help", 0, "naupegos-agent apply", ""},
		{"", "frobnicate", 3, "", `"kind":"invalid input"`},
		{"", "apply --wet-run", 3, "", "wet-run"},
		{"", "apply now", 3, "", "takes 0 arguments"},
		{"{", "apply", 3, "", "read the configuration"},
		{`{"fils":[]}`, "apply", 3, "", "fils"},
		{`{"machine":"m"}`, "apply", 0, `"digest": "sha256:`, ""},
		{`{"machine":"m"}`, "apply --dry-run", 0, `"memoryBytes":1048576`, ""},
		{"", "apply", 0, `"memoryBytes":1048576`, ""},
		{`{"machine":"m","files":[{"path":"x"}]}`, "apply", 3, "", `"where":"m"`},
		{"", "status", 0, `"paths": 0`, ""},
		{"", "facts", 0, `"memoryBytes": 1048576`, ""},
		{"hello", "blob put --size 5 " + digest, 0, "", ""},
		{"hello", "blob put " + digest + " --size 5", 0, "", ""},
		{"help!", "blob put " + digest, 4, "", "should be " + digest},
		{"", "blob has " + digest, 9, "", "not here"},
		{"", "blob eat " + digest, 3, "", "blob put"},
		{"", "gateway-check --url http://127.0.0.1:1/", 7, "", "unreachable"},
		{"", "gateway-relay 10.0.0.1", 3, "", "two or more"},
		{"", "gateway-relay 10.0.0.1 x", 3, "", "address"},
		{"", "approver", 3, "", "--kubeconfig"},
		{"", "reset", 0, `"digest": ""`, ""},
		{"", "adopt", 3, "", "takes 1 arguments"},
		{"", "release", 0, `"action": "remove"`, ""},
		{"", "version", 0, "naupegos-agent ", ""},
	}
	for _, tc := range cases {
		status, out, errOut := call(t, tc.stdin, strings.Fields(tc.args)...)
		if status != tc.status || !strings.Contains(out, tc.out) || !strings.Contains(errOut, tc.err) || (tc.status == 0) != (errOut == "") {
			t.Errorf("%s: status %d, wrote %q and %q", tc.args, status, out, errOut)
		}
		var f failure
		if tc.status != 0 && (json.Unmarshal([]byte(errOut), &f) != nil || f.What == "") {
			t.Errorf("%s: %q is not an error", tc.args, errOut)
		}
	}
}

// process starts the agent with a configuration on standard input that never ends, and returns once the agent reads it: from then on it handles
// signals.
func process(t *testing.T) (*exec.Cmd, *os.File, *bytes.Buffer) {
	t.Helper()
	r, w, err := os.Pipe()
	testkit.Must(t, err)
	stdin, in, err := os.Pipe()
	testkit.Must(t, err)
	cmd := exec.Command(os.Args[0], "apply", "--dry-run")
	cmd.Env = append(os.Environ(), "NAUPEGOS_AGENT_TEST=1")
	t.Cleanup(func() { _ = in.Close() })
	var errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, w, &errOut
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = w.Close()
	testkit.Value(bufio.NewReader(r).ReadString('\n'))(t) // what this machine is
	data, _ := json.Marshal(machine.Config{Machine: "m"})
	fmt.Fprintf(in, "%s", data[:len(data)-1])
	testkit.Until(t, time.Minute, 5*time.Millisecond, func() error {
		unread, err := unix.IoctlGetInt(int(stdin.Fd()), unix.TIOCINQ)
		if err == nil && unread > 0 {
			err = fmt.Errorf("%d bytes of the configuration have not been read yet", unread)
		}
		return err
	})
	_ = stdin.Close()
	return cmd, r, &errOut
}

func TestStopsWhenNobodyReads(t *testing.T) {
	cmd, out, errOut := process(t)
	_ = out.Close()
	interrupted(t, cmd, errOut)
}

func TestStopsOnSignal(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		cmd, out, errOut := process(t)
		testkit.Must(t, cmd.Process.Signal(s))
		interrupted(t, cmd, errOut)
		_ = out.Close()
	}
}

// interrupted asserts that the agent ends by itself and reports the reason.
func interrupted(t *testing.T, cmd *exec.Cmd, errOut *bytes.Buffer) {
	t.Helper()
	_ = cmd.Wait() // the process state below matters, not this error
	if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(errOut.String(), "interrupted") {
		t.Errorf("%s: %s", cmd.ProcessState, errOut)
	}
}

// TestPause pauses a program until standard input ends, its operator disappears, or the time is up.
func TestPause(t *testing.T) {
	program := filepath.Join(t.TempDir(), fmt.Sprintf("paused-%d", os.Getpid()))
	testkit.Must(t, os.WriteFile(program, testkit.Value(os.ReadFile("/bin/sleep"))(t), 0o755))
	server := exec.Command(program, "300")
	testkit.Must(t, server.Start())
	defer func() { _, _ = server.Process.Kill(), server.Wait() }()
	is := func(state string) {
		t.Helper()
		testkit.Until(t, time.Minute, time.Millisecond, func() error {
			stat := string(testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/stat", server.Process.Pid)))(t))
			if now := strings.Fields(stat)[2]; now != state {
				return fmt.Errorf("the program is in state %s, want %s", now, state)
			}
			return nil
		})
	}
	pause := func(long string) (cmd *exec.Cmd, in io.Closer) {
		t.Helper()
		cmd = exec.Command(os.Args[0], "pause", "--for", long, filepath.Base(program))
		cmd.Env = append(os.Environ(), "NAUPEGOS_AGENT_TEST=1")
		in = testkit.Value(cmd.StdinPipe())(t)
		out := testkit.Value(cmd.StdoutPipe())(t)
		testkit.Must(t, cmd.Start())
		if line := testkit.Value(bufio.NewReader(out).ReadString('\n'))(t); line != "paused\n" {
			t.Errorf("pause prints %q", line)
		}
		return cmd, in
	}
	is("S")
	cmd, in := pause("1h")
	is("T")
	testkit.Must(t, in.Close())
	testkit.Must(t, cmd.Wait())
	is("S")
	cmd, _ = pause("1h")
	is("T")
	testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	testkit.Must(t, cmd.Wait())
	is("S")
	cmd, _ = pause("20ms")
	testkit.Must(t, cmd.Wait())
	is("S")
}
