//go:build integration

package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// rig is a provider with directories and a cluster ID of the test's own; prepared images are shared, and so is the base image's cache,
// because making one takes minutes.
type rig struct {
	t      *testing.T
	p      *Provider
	signer ssh.Signer
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("integration tests of the local provider need root")
	}
	signer := sshtest.NewKey(t)
	root := testRoot(t)
	if images == "" {
		images = testkit.Value(os.MkdirTemp(filepath.Dir(root), "naupegos-local-test-images-"))(t)
	}
	agent := filepath.Join(root, "agent")
	if err := os.WriteFile(agent, []byte("#!/bin/true\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var unique [4]byte // two runs on one host must not mistake each other's machines for their own
	if _, err := rand.Read(unique[:]); err != nil {
		t.Fatal(err)
	}
	id := "itest-" + hex.EncodeToString(unique[:])
	opts := Options{
		ClusterID: id, ClusterName: id, Root: filepath.Join(root, "local"), ImageRoot: images, AgentBinary: agent,
		SSHPublicKeys: []string{sshtest.AuthorizedKey(signer.PublicKey())},
	}
	if slow := os.Getenv("NAUPEGOS_TEST_BOOT_TIMEOUT"); slow != "" { // for emulated hosts
		opts.Timeouts.Boot = testkit.Value(time.ParseDuration(slow))(t)
	}
	if change != nil {
		change(&opts)
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, p: p, signer: signer}
	t.Cleanup(func() { r.destroy() })
	return r
}

// alone runs a test in a network namespace of its own, as testkit.OwnNetwork does. It makes the base image first, because the namespace has no
// access to a mirror.
func alone(t *testing.T) bool {
	t.Helper()
	p, err := New(Options{ClusterID: "itest-base"})
	testkit.Must(t, err)
	testkit.Must(t, p.debian().Make(t.Context(), noted{t}))
	return testkit.OwnNetwork(t)
}

// supervisedHere runs machines in this process's network namespace even on hosts with systemd, which would otherwise start their supervisors.
func supervisedHere(o *Options) { o.Supervisor = testkit.InOwnNetwork(os.Args[0], SupervisorCommand) }

// testRoot returns a directory on a real disk: not every file system supports overlay's upper directory, and tmpfs is small.
func testRoot(t *testing.T) string {
	t.Helper()
	base := os.Getenv("NAUPEGOS_TEST_DIR")
	if base == "" {
		base = "/var/tmp"
	}
	root, err := os.MkdirTemp(base, "naupegos-local-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	return root
}

func wanted(workers int) provider.Wanted {
	w := provider.Wanted{VIP: true, Machines: []provider.MachineSpec{{Name: "gw-1", Role: provider.Gateway, Index: 1}}}
	for i := range workers {
		w.Machines = append(w.Machines, provider.MachineSpec{Name: fmt.Sprintf("w-%d", i+1), Role: provider.Worker, Pool: "general", Index: i + 1})
	}
	return w
}

type noted struct{ t *testing.T }

func (n noted) Status(format string, args ...any) { n.t.Logf("  "+format, args...) }

// carryOut runs steps: those without needs first, each level side by side.
func (r *rig) carryOut(steps []*plan.Step) {
	r.t.Helper()
	done := map[string]bool{}
	for len(done) < len(steps) {
		var ready []*plan.Step
		for _, s := range steps {
			ok := !done[s.ID]
			for _, n := range s.Needs {
				ok = ok && done[n]
			}
			if ok {
				ready = append(ready, s)
			}
		}
		if len(ready) == 0 {
			r.t.Fatal("the steps' needs can't be met")
		}
		var wg sync.WaitGroup
		for _, s := range ready {
			wg.Go(func() {
				began := time.Now()
				if err := s.Run(context.Background(), noted{r.t}); err != nil {
					r.t.Errorf("%s: %v", s.ID, err)
				}
				r.t.Logf("%s: %s in %v", s.ID, s.Title, time.Since(began).Round(time.Millisecond))
			})
		}
		wg.Wait()
		for _, s := range ready {
			done[s.ID] = true
		}
		if r.t.Failed() {
			r.t.FailNow()
		}
	}
}

func (r *rig) observe() *provider.Inventory {
	r.t.Helper()
	inv, err := r.p.Observe(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return inv
}

func (r *rig) apply(w provider.Wanted) []*plan.Step {
	r.t.Helper()
	steps, err := r.p.Steps(r.t.Context(), w, r.observe())
	if err != nil {
		r.t.Fatal(err)
	}
	r.carryOut(steps)
	return steps
}

func (r *rig) destroy() { r.carryOut(r.p.Destroy(r.t.Context(), r.observe())) }

// ssh runs a command on a machine, whose host key must be the recorded one.
func (r *rig) ssh(name, command string) string {
	r.t.Helper()
	out, err := r.remote(name, command)
	if err != nil {
		r.t.Fatalf("%s: %s: %v: %s", name, command, err, out)
	}
	return out
}

func (r *rig) remote(name, command string) (string, error) {
	m, err := r.p.Machine(context.Background(), name)
	if err != nil {
		return "", err
	}
	pinned, _, _, _, err := ssh.ParseAuthorizedKey([]byte(m.HostKeys[0]))
	if err != nil {
		return "", err
	}
	l := sshtest.Login{User: m.User, Key: r.signer, HostKey: pinned, Timeout: 10 * time.Second}
	return l.Run(net.JoinHostPort(m.Address, fmt.Sprint(m.Port)), command)
}

func TestMachinesBootAndGo(t *testing.T) {
	r := newRig(t, nil)
	w := wanted(0)
	r.apply(w)
	t.Log(r.ssh("gw-1", "systemd-analyze; systemd-analyze blame | head -8; cat /proc/self/cgroup"))
	if failed := r.ssh("gw-1", "systemctl list-units --failed --no-legend --plain"); failed != "" {
		t.Errorf("failed units: %s", failed)
	}
	hs, err := process.Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hs { // kubelet and runc need these controllers in the machine, on v1 and on v2
		group := filepath.Join(h.Mount, "naupegos-test")
		if h.Unified && len(hs) == 1 {
			have := r.ssh("gw-1", "cat "+filepath.Join(h.Mount, "cgroup.controllers"))
			for _, c := range []string{"cpu", "cpuset", "memory", "pids"} {
				if !slices.Contains(strings.Fields(have), c) {
					t.Errorf("controller %s is missing in the machine: %s", c, have)
				}
			}
		}
		r.ssh("gw-1", "mkdir "+group+" && rmdir "+group)
	}
	if steps := r.apply(w); len(steps) > 0 {
		t.Errorf("a second run has steps: %v", steps[0].Title)
	}
}
