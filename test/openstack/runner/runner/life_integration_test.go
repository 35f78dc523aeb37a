//go:build integration

package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

const atMost = 2 * time.Minute

// needMachines skips the test if this host can't run machines or has no HAProxy.
func needMachines(t *testing.T) {
	t.Helper()
	p, err := local.New(local.Options{ClusterID: clusterID(fakeNetwork)})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Preflight(t.Context(), provider.Wanted{Machines: []provider.MachineSpec{{Name: "one", Role: provider.Worker}}})
	if _, absent := exec.LookPath("haproxy"); err == nil && absent != nil {
		err = fail.Wrap(fail.Refused, absent, "balance load").Do("apt-get install haproxy")
	}
	if fail.KindOf(err) == fail.Refused {
		t.Skipf("no machines here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// alone runs a test in a network namespace of its own, as testkit.OwnNetwork does. It builds the machines' image first, because the namespace has
// no access to a mirror.
func alone(t *testing.T) bool {
	t.Helper()
	needMachines(t)
	p, err := local.New(local.Options{ClusterID: clusterID(fakeNetwork)})
	testkit.Must(t, err)
	steps, err := p.Steps(t.Context(), provider.Wanted{Machines: []provider.MachineSpec{{Name: "one", Role: provider.Worker}}}, &provider.Inventory{})
	testkit.Must(t, err)
	for _, s := range steps {
		if s.ID == "image" {
			testkit.Must(t, s.Run(t.Context(), told{slog.Default()}))
		}
	}
	return testkit.OwnNetwork(t)
}

// bootStamp logs in to an address and returns the machine's boot ID.
func (f *fakeCloud) bootStamp(address string) (string, error) {
	l := sshtest.Login{Key: f.signer, Timeout: 2 * time.Second}
	return l.Run(address, "hostname; systemctl show -p UserspaceTimestampMonotonic --value")
}

// same fails unless the machine answers at all three addresses in the same boot.
func (f *fakeCloud) same(boot *string) error {
	for _, a := range []string{fakeAddress, fakeVIP, fakePublic} {
		now, err := f.bootStamp(a)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", a, err)
		case *boot == "":
			*boot = now
		case now != *boot:
			return fmt.Errorf("%s: the boot %q, not %q", a, now, *boot)
		}
	}
	return nil
}

func childOf(t *testing.T, o Options) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "runner", o.State, o.Networks[0], o.Machines.Root)
	cmd.Env = append(os.Environ(), "NAUPEGOS_OPENSTACK_ROOT="+o.State, "NAUPEGOS_TEST_METADATA="+o.MetadataURL)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killChild(cmd) })
	return cmd
}

func killChild(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill() // SIGKILL, so that the runner can't clean up
		_ = cmd.Wait()
	}
}

// TestRunnersLife creates, changes and removes a machine, a floating IP and a load balancer, and kills the runner twice in between.
func TestRunnersLife(t *testing.T) {
	if !alone(t) {
		return
	}
	f := newFakeCloud(t)
	o := f.bed()
	ids := []string{clusterID(fakeNetwork)[3:], o.short()}
	if left := onHost(t, ids); len(left) > 0 {
		t.Fatalf("left by a former test: %v", left)
	}
	sweepAfter(t, o, ids)
	var boot string
	first := childOf(t, o)
	await(t, atMost, "the machine by its address, the load balancer and the floating IP", func() error { return f.same(&boot) })
	if !strings.HasPrefix(boot, "one\n") {
		t.Errorf("the host name is not the server's: %q", boot)
	}
	hasHostKeys := func() error {
		console, err := os.ReadFile(o.State + "/console/" + fakeServer + ".log")
		if err == nil && !strings.Contains(string(console), "END SSH HOST KEY KEYS") {
			err = fmt.Errorf("no host keys in %s", console)
		}
		return err
	}
	await(t, atMost, "the SSH host keys on the console", hasHostKeys)
	killChild(first)
	if now, err := f.bootStamp(fakeAddress); err != nil || now != boot {
		t.Errorf("the machine after its runner was killed: %q %v", now, err)
	}
	await(t, atMost, "HAProxy to have ended with its runner", func() error {
		if c, err := net.DialTimeout("tcp", fakeVIP+":22", time.Second); err == nil {
			return errors.Join(errors.New("it answers"), c.Close())
		}
		return nil
	})
	second := childOf(t, o)
	await(t, atMost, "all of it again, the machine in the same boot", func() error { return f.same(&boot) })
	f.set("actions", map[string]any{"action": "reboot", "start_time": time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000000")})
	f.set("servers", f.server("ACTIVE", time.Now().Add(time.Minute)))
	await(t, atMost, "another boot", func() error {
		now, err := f.bootStamp(fakeAddress)
		if err == nil && now == boot {
			err = errors.New("the same boot")
		}
		return err
	})
	f.set("servers", f.server("SHUTOFF", time.Now().Add(2*time.Minute)))
	await(t, atMost, "the machine to be off", func() error {
		if now, err := f.bootStamp(fakeAddress); err == nil {
			return errors.New(now)
		}
		return nil
	})
	f.set("servers", f.server("ACTIVE", time.Now().Add(3*time.Minute)))
	boot = ""
	await(t, atMost, "all of it once more", func() error { return f.same(&boot) })
	killChild(second)
	if here := onHost(t, ids); len(here) < 5 {
		t.Fatalf("a killed runner should leave more: %v", here)
	}
	f.empty()
	stop := start(t, o)
	await(t, atMost, "nothing to be left", func() error {
		if left := onHost(t, ids); len(left) > 0 {
			return fmt.Errorf("still there:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := hasHostKeys(); err != nil {
		t.Errorf("the console log was removed with the machine: %v", err)
	}
}

// TestStopRemovesAll stops a runner that has machines.
func TestStopRemovesAll(t *testing.T) {
	if !alone(t) {
		return
	}
	f := newFakeCloud(t)
	o := f.bed()
	ids := []string{clusterID(fakeNetwork)[3:], o.short()}
	sweepAfter(t, o, ids)
	stop := start(t, o)
	var boot string
	await(t, atMost, "the machine", func() error { return f.same(&boot) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if left := onHost(t, ids); len(left) > 0 {
		t.Errorf("still there:\n%s", strings.Join(left, "\n"))
	}
}
