//go:build integration

package filter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRulesInTheKernel: a machine at 10.9.0.1, and one after another that ask it from 10.9.0.2.
func TestRulesInTheKernel(t *testing.T) {
	if !testkit.OwnNetwork(t) {
		return
	}
	run := func(argv ...string) string {
		t.Helper()
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
		}
		return string(out)
	}
	// The other side is a process in a network namespace of its own, which lives as long as the test.
	other := exec.Command("unshare", "--net", "--kill-child", "sh", "-c", "echo; exec cat")
	in := testkit.Value(other.StdinPipe())(t)
	out := testkit.Value(other.StdoutPipe())(t)
	testkit.Must(t, other.Start())
	t.Cleanup(func() { in.Close(); _ = other.Wait() }) // cat ends with its input
	testkit.Value(out.Read(make([]byte, 1)))(t)        // it is there
	there := []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", other.Process.Pid), "--"}
	run("ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", fmt.Sprint(other.Process.Pid))
	run("ip", "addr", "add", "10.9.0.1/24", "dev", "near")
	run("ip", "link", "set", "near", "up")
	run(append(there, "ip", "addr", "add", "10.9.0.2/24", "dev", "far")...)
	run(append(there, "ip", "link", "set", "far", "up")...)

	for _, port := range []string{"2379", "10250", "6443"} {
		l := testkit.Value(net.Listen("tcp", "10.9.0.1:"+port))(t)
		t.Cleanup(func() { l.Close() })
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				c.Close()
			}
		}()
	}
	// asks reports whether the other side gets a connection within a second; dropped packets get no answer.
	asks := func(port string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := exec.CommandContext(ctx, there[0], append(there[1:], "bash", "-c", "exec 3<>/dev/tcp/10.9.0.1/"+port)...).Run()
		if err != nil && ctx.Err() == nil {
			t.Errorf("port %s: %v", port, err)
		}
		return err == nil
	}
	load := func(p Params) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "rules")
		testkit.Must(t, os.WriteFile(file, testkit.Value(Config(p))(t).Files[0].Content, 0o600))
		run("nft", "-f", file)
	}
	expect := func(when string, want map[string]bool) {
		t.Helper()
		for port, let := range want {
			// Retry admitted connections: a second is short on a busy host.
			var err error
			for try := 0; try < 20; try++ {
				if err = nil; asks(port) != let {
					err = errors.New(when)
				}
				if !let || err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("%s: port %s is open: %v, want %v\n%s", when, port, !let, let, run("nft", "list", "ruleset"))
			}
		}
	}
	open, shut := map[string]bool{"2379": true, "10250": true, "6443": true}, map[string]bool{"2379": false, "10250": false, "6443": true}

	expect("there is no filter", open)
	visitors := agent.New(agent.Options{Runner: agent.Exec{}})
	testkit.Must(t, visitors.Admit(t.Context(), Table, Visitors, time.Hour, []string{"10.9.0.2"})) // which means nothing yet
	peers := func(list ...string) Peers { return testkit.Value(PeersOf(list))(t) }
	p := params(t)
	p.Machines, p.Admit = peers("10.9.0.1"), nil
	load(p)
	expect("a stranger asks", shut)
	testkit.Must(t, visitors.Admit(t.Context(), Table, Visitors, time.Hour, []string{"10.9.0.2"}))
	expect("it is let in", open)
	load(p)
	expect("the rules were loaded once more", open)
	run("nft", "flush", "set", "inet", Table, Visitors) // as when the hour is over
	expect("the hour is over", shut)
	p.Admit = []string{"10.9.0.0/30", "10.9.0.0/24"}
	load(p)
	expect("its network is admitted", open)
	p.Admit = nil
	load(p)
	expect("and is not any more", shut)
	p.Machines = peers("10.9.0.1", "10.9.0.2")
	load(p)
	expect("it is a machine of the cluster", open)
	p.ControlPlane, p.Machines = false, peers("10.9.0.1")
	load(p)
	expect("a worker has no etcd to protect", map[string]bool{"2379": true, "10250": false})
	run("nft", "delete", "table", "inet", Table)
	expect("the filter is gone", open)
}
