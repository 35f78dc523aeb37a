//go:build integration

package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/address"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/provider/local/shared"
	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	forwarding = "net/ipv4/ip_forward" // each network namespace has its own
	instances  = "fs/inotify/max_user_instances"
)

func hostSetting(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(files.ProcSys, name))
	testkit.Must(t, err)
	return strings.TrimSpace(string(data))
}

func expectForwarding(t testing.TB, when, want string) {
	t.Helper()
	if got := hostSetting(t, forwarding); got != want {
		t.Errorf("%s: %s is %s, want %s", when, forwarding, got, want)
	}
}

// TestTwoRoots runs clusters of two state roots on one host with the kernel's default settings: whichever is destroyed first, the other's machine
// keeps the settings that it needs, and the last one restores the defaults.
func TestTwoRoots(t *testing.T) {
	if !alone(t) {
		return
	}
	testkit.Must(t, files.Set(files.ProcSys, forwarding, "0"))
	wasHigh := highInstances(t)
	a := newRig(t, supervisedHere)
	b := newRig(t, func(o *Options) { supervisedHere(o); o.ImageRoot = a.p.opts.ImageRoot })
	for _, order := range []struct {
		name        string
		first, last *rig
	}{{"the former goes first", a, b}, {"the latter goes first", b, a}} {
		t.Run(order.name, func(t *testing.T) {
			a.apply(wantedOf(order.last == a))
			b.apply(wantedOf(order.last == b))
			order.first.destroy()
			expectForwarding(t, "one of two clusters went", "1")
			if !highInstances(t) {
				t.Error("one of two clusters went, and took inotify instances with it")
			}
			if steps := order.last.apply(wanted(0)); len(steps) > 0 {
				t.Errorf("the other one has the step %q: %v", steps[0].Title, steps[0].Details)
			}
			order.last.ssh("gw-1", "ping -c1 -W10 "+address.Nth(order.last.p.subnet, address.ThisHost).String())
			order.last.destroy()
			expectForwarding(t, "both clusters went", "0")
			expectInstances(t, wasHigh)
		})
	}
}

func wantedOf(machine bool) provider.Wanted {
	if machine {
		return wanted(0)
	}
	return provider.Wanted{}
}

func highInstances(t *testing.T) bool {
	t.Helper()
	low, err := shared.LowSettings()
	testkit.Must(t, err)
	_, is := low[instances]
	return !is
}

// expectInstances fails unless inotify's limit, which is global for all namespaces, was restored once no machine needs it.
func expectInstances(t *testing.T, wasHigh bool) {
	t.Helper()
	release, err := shared.Lock(t.Context())
	testkit.Must(t, err)
	defer release()
	running, err := process.OfMachines()
	testkit.Must(t, err)
	remembered, err := shared.RaisedSettings()
	testkit.Must(t, err)
	_, raised := remembered[instances]
	switch {
	case wasHigh || len(running) > 0 || raised:
		t.Logf("not looked at: whether %s goes back, because others on this host need it (high before: %v, their machines run: %v, raised by them: %v)",
			instances, wasHigh, len(running) > 0, raised)
	case highInstances(t):
		t.Errorf("%s is still %s although no machine needs it", instances, hostSetting(t, instances))
	}
}

// TestKilledBetween kills a command repeatedly while it creates and removes a cluster's network. The cluster of another state root never loses
// the settings that it needs, and the next destroy removes the remains of the killed commands.
func TestKilledBetween(t *testing.T) {
	if root := os.Getenv("NAUPEGOS_TEST_RESTLESS"); root != "" {
		restless(t, root)
	}
	if !testkit.OwnNetwork(t) {
		return
	}
	testkit.Must(t, files.Set(files.ProcSys, forwarding, "0"))
	a, b := newRig(t, supervisedHere), newRig(t, supervisedHere)
	random := testkit.Rand(t)
	for i := range 24 {
		beside := i%2 == 0
		if beside {
			b.apply(provider.Wanted{})
		}
		after := time.Duration(random.IntN(150)) * time.Millisecond
		lost := killRestless(t, a, after)
		if beside {
			if lost {
				t.Errorf("within %v another cluster took %s away", after, forwarding)
			}
			for _, s := range b.apply(provider.Wanted{}) {
				if !testkit.KernelWide(s.Details) {
					t.Errorf("killed after %v: the other cluster has the step %q: %v", after, s.Title, s.Details)
				}
			}
			b.destroy()
		}
		a.destroy()
		expectForwarding(t, fmt.Sprintf("killed after %v, and destroyed", after), "0")
	}
}

// killRestless starts another process that creates and removes a's network in a loop, and kills it after the given time. lost reports whether
// forwarding was off at any time until then, or is off now.
func killRestless(t *testing.T, a *rig, after time.Duration) (lost bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBetween$")
	cmd.Env = append(os.Environ(), "NAUPEGOS_TEST_RESTLESS="+a.p.opts.Root+" "+a.p.opts.ClusterID)
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	cmd.Stderr = os.Stderr
	testkit.Must(t, cmd.Start())
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(after); time.Now().Before(end); time.Sleep(500 * time.Microsecond) {
		lost = lost || hostSetting(t, forwarding) == "0"
	}
	testkit.Must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Errorf("it ended before it was killed: %v", err)
	}
	return lost || hostSetting(t, forwarding) == "0"
}

// restless is the other process. It does not return.
func restless(t *testing.T, arguments string) {
	root, id, _ := strings.Cut(arguments, " ")
	p, err := New(Options{ClusterID: id, Root: root})
	testkit.Must(t, err)
	subnet, err := p.planSubnet()
	testkit.Must(t, err)
	fmt.Print(".")
	for {
		testkit.Must(t, p.makeNetwork(context.Background(), subnet))
		testkit.Must(t, p.removeNetwork(context.Background()))
	}
}

// TestSameIDInTwoRoots: a cluster with the ID of another root's cluster, as in a copy of a state directory, gets nothing, and its removal removes
// nothing.
func TestSameIDInTwoRoots(t *testing.T) {
	if !testkit.OwnNetwork(t) {
		return
	}
	a := newRig(t, supervisedHere)
	a.apply(provider.Wanted{})
	copied := newProvider(t, func(o *Options) { o.ClusterID = a.p.opts.ClusterID })
	subnet, err := copied.planSubnet()
	testkit.Must(t, err)
	for what, call := range map[string]func() error{
		"make its network":   func() error { return copied.makeNetwork(t.Context(), subnet) },
		"remove its network": func() error { return copied.removeNetwork(t.Context()) },
		"remove its rest":    func() error { return copied.sweep(t.Context()) },
	} {
		if err := call(); fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), a.p.n.dir()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, s := range a.apply(provider.Wanted{}) {
		if !testkit.KernelWide(s.Details) {
			t.Errorf("the first one has the step %q: %v", s.Title, s.Details)
		}
	}
	testkit.Must(t, os.RemoveAll(a.p.n.dir())) // manually: now the other one may have it
	testkit.Must(t, copied.makeNetwork(t.Context(), subnet))
	testkit.Must(t, copied.sweep(t.Context()))
}
