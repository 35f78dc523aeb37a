//go:build openstack

package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// child starts a runner in a process of its own.
func child(t *testing.T, o Options) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "runner", o.State, o.Networks[0], o.Machines.Root)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	return cmd
}

// kill is idempotent: killing an ended process does nothing.
func kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestKilledRunner kills the runner twice. Machines keep running; the second runner takes them over, and the third removes them after the cloud
// was emptied.
func TestKilledRunner(t *testing.T) {
	testkit.OnlyFull(t, "TestLife kills a runner before services that are not real")
	x := newTenant(t, "10.94.9.0/24")
	o := testOptions(t, x.network)
	ids := []string{clusterID(x.network)[3:], o.short()}
	sweepAfter(t, o, ids)
	first := child(t, o)
	s := x.boot(x.name + "-one")
	port, _ := x.port(s.ID)
	public := x.floatingIP(port)
	vip, _ := x.balance(s)
	var boot string
	look := func() error {
		now, err := sshtest.Login{Key: x.signer, Timeout: 2 * time.Second}.Run(public, "systemctl show -p UserspaceTimestampMonotonic --value")
		if err == nil && boot != "" && now != boot {
			t.Fatal("the machine has rebooted")
		}
		boot = now
		return err
	}
	x.await("the machine", bootTime, look)
	x.await("the load balancer", bootTime, func() error { return x.answers(vip, s.Name) })
	kill(first)
	x.await("HAProxy to have ended with its runner", time.Minute, func() error {
		out, err := exec.Command("ps", "-eo", "args").CombinedOutput()
		if err == nil && strings.Contains(string(out), "-f "+o.dir()+"/haproxy.cfg") {
			err = errors.New("it runs")
		}
		return err
	})
	if err := look(); err != nil {
		t.Errorf("the machine after its runner was killed: %v", err)
	}
	second := child(t, o)
	x.await("the load balancer again", bootTime, func() error { return x.answers(vip, s.Name) })
	x.await("the machine after it was taken over", bootTime, look)
	kill(second)
	if len(onHost(t, ids)) < 5 {
		t.Fatalf("a killed runner should leave more: %v", onHost(t, ids))
	}
	x.destroy()
	stop := start(t, o)
	x.await("nothing to be left", bootTime, func() error {
		if left := onHost(t, ids); len(left) > 0 {
			return fmt.Errorf("still there:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
	testkit.Must(t, stop())
}
