//go:build integration

package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/layers"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/testkit"
)

// traces lists everything of one cluster that is visible on the host.
func traces(t *testing.T, r *rig) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	command := func(key, name string, args ...string) {
		text, err := exec.Command(name, args...).CombinedOutput()
		if err != nil && name != "find" { // other programs' files and groups disappear during the search
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, r.p.n.short) {
				out[key] = append(out[key], strings.TrimSpace(line))
			}
		}
	}
	command("links", "ip", "-o", "link")
	command("addresses", "ip", "-o", "addr")
	command("routes", "ip", "route")
	command("tables", "nft", "list", "ruleset")
	command("mounts", "cat", "/proc/self/mountinfo")
	command("processes", "ps", "-eo", "args")
	command("cgroups", "find", "/sys/fs/cgroup", "-type", "d")
	command("name spaces", "lsns", "-n", "-o", "NS,COMMAND")
	command("files", "find", r.p.n.root, r.p.opts.ImageRoot, "/run", "-maxdepth", "5", "-name", "*"+r.p.n.short+"*")
	out[forwarding] = []string{hostSetting(t, forwarding)}
	return out
}

// TestMachinesLife takes two machines through all events of a machine's life, and compares the host before and after.
func TestMachinesLife(t *testing.T) {
	if !alone(t) {
		return
	}
	r := newRig(t, supervisedHere)
	testkit.Must(t, files.Set(files.ProcSys, forwarding, "0"))
	for _, dir := range []string{r.p.n.root, r.p.opts.ImageRoot} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := traces(t, r)
	w := wanted(2)
	r.apply(w)
	r.ssh("w-1", "echo kept > /root/file && ping -c1 -W10 "+r.address("w-2"))
	machineID := r.ssh("w-1", "cat /etc/machine-id")

	t.Run("kubelet finds the kernel settings it wants, and the host's stay", func(t *testing.T) {
		for name, value := range layers.Sysctls {
			if got := r.ssh("w-1", "cat /proc/sys/"+name); got != value {
				t.Errorf("%s is %s, want %s", name, got, value)
			}
		}
	})
	t.Run("reboot inside", func(t *testing.T) {
		boot := r.ssh("w-1", "systemctl show -p UserspaceTimestampMonotonic --value")
		r.ssh("w-1", "systemctl reboot || true")
		r.eventually("w-1 boots again", func() bool {
			now, err := r.remote("w-1", "systemctl show -p UserspaceTimestampMonotonic --value")
			return err == nil && now != boot
		})
		r.expect("w-1", provider.Running)
	})
	t.Run("power", func(t *testing.T) {
		began := time.Now()
		r.power("w-1", "off")
		t.Logf("clean shutdown took %v", time.Since(began).Round(time.Millisecond))
		r.expect("w-1", provider.Stopped)
		r.power("w-1", "off") // another run changes nothing
		r.power("w-1", "on")
		r.expect("w-1", provider.Running)
		r.power("w-1", "kill")
		r.expect("w-1", provider.Stopped)
		r.apply(w)
	})
	t.Run("supervisor killed", func(t *testing.T) {
		s, err := supervisor(r.p.n.machine("w-1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.eventually("w-1 is not running", func() bool { return r.state("w-1") != provider.Running })
		r.apply(w)
	})
	t.Run("off the bridge", func(t *testing.T) {
		if err := hostnet.RemoveLink(r.p.n.bridge()); err != nil {
			t.Fatal(err)
		}
		r.expect("w-1", provider.Failed)
		r.apply(w)
	})
	t.Run("host rebooted", func(t *testing.T) {
		r.loseKernelState()
		r.expect("w-1", provider.Stopped)
		r.power("w-1", "on") // restores the network, too
		r.expect("w-1", provider.Running)
		r.apply(w)
	})
	if got := r.ssh("w-1", "cat /root/file /etc/machine-id"); got != "kept\n"+machineID {
		t.Errorf("the disk did not survive: %q", got)
	}
	if failed := r.ssh("w-1", "systemctl list-units --failed --no-legend --plain"); failed != "" {
		t.Errorf("failed units: %s", failed)
	}
	if steps := r.apply(w); len(steps) > 0 {
		t.Errorf("a second run has the step %q", steps[0].Title)
	}
	r.carryOut([]*plan.Step{r.p.DestroyMachine(provider.Machine{Name: "w-2"})})
	if inv := r.observe(); len(inv.Machines) != 2 {
		t.Errorf("%d machines after one of three was destroyed", len(inv.Machines))
	}
	r.destroy()
	r.destroy() // from nothing
	if d := cmp.Diff(before, traces(t, r)); d != "" {
		t.Errorf("the host is not as before (-before +after):\n%s", d)
	}
}

// loseKernelState removes the state that a reboot of the host would remove, except state of other users of this host.
func (r *rig) loseKernelState() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	groups, err := process.InHierarchies(r.p.n.cgroups())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return process.KillCgroups(ctx, groups) },
		func() error { return process.RemoveCgroups(ctx, groups) },
		func() error { return hostnet.RemoveTable(ctx, r.p.n.table()) },
		func() error { return hostnet.RemoveLink(r.p.n.bridge()) },
		func() error { return files.Set(files.ProcSys, forwarding, "0") }, // that of the test's own network namespace
	} {
		if err := step(); err != nil {
			r.t.Fatal(err)
		}
	}
	links, err := hostnet.LinksOf(r.p.n.linkPrefix())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range links {
		if err := hostnet.RemoveLink(l); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, m := range r.observe().Machines { // run.json survives a crash, and names a process of another boot
		if err := files.WriteJSON(runFile(r.p.n.machine(m.Name)), process.ID{PID: os.Getpid(), Start: 1, Boot: "the boot before"}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestHalfMadeMachines leaves machines as a killed create would at each point, and lets the next apply finish them.
func TestHalfMadeMachines(t *testing.T) {
	r := newRig(t, nil)
	w := wanted(2)
	r.apply(provider.Wanted{}) // only the network
	if _, err := r.p.Steps(r.t.Context(), w, r.observe()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.p.n.machine("gw-1"), 0o700); err != nil { // killed before the record
		t.Fatal(err)
	}
	rec, err := r.p.recordOf("w-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(upperDir(r.p.n.machine("w-1")), "etc"), 0o700); err != nil { // in the middle of the disk
		t.Fatal(err)
	}
	if err := files.WriteJSON(recordFile(r.p.n.machine("w-1")), rec); err != nil {
		t.Fatal(err)
	}
	r.expect("w-1", provider.Partial)
	r.expect("gw-1", provider.Partial)
	r.apply(w)
	r.ssh("w-1", "test -d /etc/ssh && stat -c %a /etc | grep -q 755")
}

// TestMachineThatNeverBoots: a machine without an init, and one that never answers.
func TestMachineThatNeverBoots(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Timeouts.Boot = 12 * time.Second })
	r.apply(provider.Wanted{})
	w := wanted(1)
	spec := w.Machines[1]
	if err := r.p.layers().Make(t.Context(), silent{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.p.Steps(r.t.Context(), w, r.observe()); err != nil {
		t.Fatal(err)
	}
	rec, err := r.p.recordOf(spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.p.createMachine(t.Context(), spec, rec, silent{}); err != nil {
		t.Fatal(err)
	}
	upper := upperDir(r.p.n.machine(spec.Name))
	if err := makeParents(upper, nil, "etc/systemd/system"); err != nil {
		t.Fatal(err)
	}
	broken := []byte("[Service]\nExecStart=/bin/false\n")
	if err := os.WriteFile(filepath.Join(upper, "etc/systemd/system/ssh.service"), broken, 0o644); err != nil {
		t.Fatal(err)
	}
	err = r.p.ensureMachine(t.Context(), spec, silent{})
	t.Log(err)
	if fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), spec.Name) || !strings.Contains(err.Error(), "no SSH server answered") {
		t.Errorf("never answers: %v", err)
	}
	if err := r.p.killMachine(t.Context(), spec.Name); err != nil {
		t.Fatal(err)
	}
	r.p.opts.Timeouts.Boot = time.Minute
	hidden := filepath.Join(upper, "usr/lib/systemd/systemd")
	if err := os.MkdirAll(filepath.Dir(hidden), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(hidden, unix.S_IFCHR, 0); err != nil { // overlay's mark for "deleted"
		t.Fatal(err)
	}
	began := time.Now()
	err = r.p.ensureMachine(t.Context(), spec, silent{})
	t.Log(err)
	if fail.KindOf(err) != fail.Internal || !strings.Contains(err.Error(), "ended while booting") {
		t.Errorf("has no init: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a machine that ended at once was waited for for %v", took)
	}
	r.carryOut([]*plan.Step{r.p.DestroyMachine(provider.Machine{Name: spec.Name})})
	r.apply(w)
	r.replaced(w)
}

// replaced destroys a machine after its step was planned: the step then creates a new one.
func (r *rig) replaced(w provider.Wanted) {
	r.t.Helper()
	name := w.Machines[len(w.Machines)-1].Name
	was := r.address(name)
	inv := r.observe()
	inv.Machines = slices.DeleteFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == name })
	steps := testkit.Value(r.p.Steps(r.t.Context(), w, inv))(r.t)
	r.carryOut([]*plan.Step{r.p.DestroyMachine(provider.Machine{Name: name})})
	r.carryOut(steps)
	r.expect(name, provider.Running)
	if now := r.address(name); now != was {
		r.t.Errorf("%s was at %s and is at %s", name, was, now)
	}
}

func (r *rig) address(name string) string {
	m, err := r.p.Machine(r.t.Context(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return m.Address
}

func (r *rig) state(name string) provider.State {
	inv := r.observe()
	i := slices.IndexFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == name })
	if i < 0 {
		return ""
	}
	return inv.Machines[i].State
}

func (r *rig) expect(name string, want provider.State) {
	r.t.Helper()
	if got := r.state(name); got != want {
		r.t.Errorf("%s is %s, want %s", name, got, want)
	}
}

func (r *rig) power(name, state string) {
	r.t.Helper()
	if err := r.p.Power(r.t.Context(), name, state); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) eventually(what string, done func() bool) {
	r.t.Helper()
	testkit.Until(r.t, time.Minute, 100*time.Millisecond, testkit.That(what, done))
}
