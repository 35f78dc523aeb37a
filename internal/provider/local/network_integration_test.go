//go:build integration

package local

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/shared"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/tool"
)

// command runs one of the host's tools.
func command(t *testing.T, line string) {
	t.Helper()
	args := strings.Fields(line)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// TestMachinesReachTheOutside: a machine talks to a host without a route to the machine's subnet, so that only masquerading can bring the answer;
// and, if iptables is installed, with Docker's FORWARD policy.
func TestMachinesReachTheOutside(t *testing.T) {
	if !alone(t) {
		return
	}
	r := newRig(t, supervisedHere)
	outside := exec.Command("sleep", "infinity")
	outside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	testkit.Must(t, outside.Start())
	t.Cleanup(func() { _ = outside.Process.Kill(); _ = outside.Wait() })
	enter := fmt.Sprintf("nsenter --net=/proc/%d/ns/net ip ", outside.Process.Pid)
	command(t, fmt.Sprintf("ip link add outside type veth peer name inside netns %d", outside.Process.Pid))
	command(t, "ip addr add 198.51.100.1/30 dev outside")
	command(t, "ip link set outside up")
	command(t, enter+"addr add 198.51.100.2/30 dev inside")
	command(t, enter+"link set inside up")
	if _, err := exec.LookPath("iptables"); err == nil {
		command(t, "iptables -P FORWARD DROP")
	} else {
		t.Log("without iptables: forwarding under Docker's policy is not tested here")
	}
	r.apply(wanted(0))
	r.ssh("gw-1", "ping -c1 -W10 198.51.100.2")
	r.destroy()
	if _, err := exec.LookPath("iptables"); err == nil {
		out, err := tool.Run(t.Context(), nil, "iptables", "-S", "FORWARD")
		if err != nil || strings.Contains(out, r.p.n.table()) {
			t.Errorf("forward rules are left: %s %v", out, err)
		}
	}
}

// TestTwoClusters creates two clusters at once under one root; neither may disturb the other, and the host's settings stay raised until the last
// one is removed.
func TestTwoClusters(t *testing.T) {
	a := newRig(t, nil)
	b := newRig(t, func(o *Options) { o.Root = a.p.opts.Root })
	rigs := []*rig{a, b}
	var wg sync.WaitGroup
	for _, r := range rigs {
		wg.Go(func() {
			steps, err := r.p.Steps(r.t.Context(), wanted(0), &provider.Inventory{})
			if err != nil {
				t.Error(err)
				return
			}
			for _, s := range steps { // the two image steps meet at the lock
				if err := s.Run(t.Context(), noted{t}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if a.address("gw-1") == b.address("gw-1") {
		t.Fatal("both clusters have the same addresses")
	}
	c, err := New(Options{ClusterID: "itest-cccc0001", Root: a.p.opts.Root, ImageRoot: a.p.opts.ImageRoot, CIDR: a.p.subnet.String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.makeNetwork(t.Context(), a.p.subnet); fail.KindOf(err) != fail.Conflict {
		t.Errorf("a third cluster in the first one's subnet: %v", err)
	}
	if err := c.Preflight(t.Context(), provider.Wanted{}); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "overlaps") {
		t.Errorf("preflight of a third cluster in the first one's subnet: %v", err)
	}
	if err := a.p.Preflight(t.Context(), wanted(1)); err != nil {
		t.Errorf("preflight of a cluster that runs: %v", err)
	}
	a.destroy()
	b.ssh("gw-1", "true")
	if low, err := shared.LowSettings(); err != nil || len(low) > 0 {
		t.Errorf("the first cluster's end lowered the second's settings: %v %v", low, err)
	}
}

// TestBridgeKeepsItsAddress: the hardware address of the bridge stays when machines are added and removed.
func TestBridgeKeepsItsAddress(t *testing.T) {
	const bridge = "naupegostestbr"
	if err := hostnet.EnsureBridge(bridge, "a test", netip.MustParsePrefix("10.77.243.0/24")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command(t, "ip link del "+bridge) })
	address := func() string {
		t.Helper()
		l, err := netlink.LinkByName(bridge)
		if err != nil {
			t.Fatal(err)
		}
		return l.Attrs().HardwareAddr.String()
	}
	before := address()
	command(t, "ip link add naupegostestln address 02:00:00:00:00:01 type veth peer name naupegostestpr") // lower than any random one
	if err := hostnet.AttachLink("naupegostestln", bridge); err != nil {
		t.Fatal(err)
	}
	if now := address(); now != before {
		t.Errorf("a machine came, and %s became %s", before, now)
	}
	if err := hostnet.RemoveLink("naupegostestln"); err != nil {
		t.Fatal(err)
	}
	if now := address(); now != before {
		t.Errorf("a machine went, and %s became %s", before, now)
	}
}
