//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/server/routes/client"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/rack"
)

// discoveryEnv names the directory with the discovery image, for tests in their own network namespace, which has no mirror to build it from.
const discoveryEnv = "NAUPEGOS_TEST_DISCOVERY"

// inRack runs a test in its own network namespace, with a discovery image, and reports whether this process is in the namespace; see OwnNetwork.
func inRack(t *testing.T) bool {
	t.Helper()
	if os.Getenv(discoveryEnv) == "" {
		dir := filepath.Join(built.dir, "discovery")
		if r := naupegos(t, invocation{}, "image", "discovery", "--virtual", "--dir", dir); r.code != 0 {
			t.Fatal(r)
		}
		t.Setenv(discoveryEnv, dir)
	}
	if os.Getenv(builtEnv) == "" {
		t.Setenv(builtEnv, built.dir)
	}
	return testkit.OwnNetwork(t)
}

// provisioning is a network that machines boot over, with a server and emulated machines.
type provisioning struct {
	t       *testing.T
	dir     string
	link    string // name of the bridge
	server  *served
	token   string
	cluster string                   // name of the cluster on the machines
	machine map[string]*rack.Machine // by name
}

// network is a rack's network: a bridge in this process's network namespace, this host's address on it, and the range of its /24 for machines.
type network struct {
	link        string
	address     netip.Addr
	first, last byte
}

// newProvisioning makes a bridge with a server that assigns addresses on it.
func newProvisioning(t *testing.T, flags ...string) *provisioning {
	t.Helper()
	n := network{"rack", netip.MustParseAddr("10.91.0.1"), 100, 150}
	// Otherwise the other link answers for the bridge's address, too, and packets to it don't arrive over the bridge.
	testkit.Must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0o644))
	for _, line := range []string{
		"link add " + n.link + " type bridge forward_delay 0 mcast_snooping 0", "address add " + n.address.String() + "/24 dev " + n.link, "link set " + n.link + " up",
		"link add rack-x type veth peer name rack-y", "link set rack-x master " + n.link + " up", "link set rack-y up", // a bridge without a port has no carrier
	} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	return serveRack(t, n, flags...)
}

// serveRack starts a server that assigns addresses on an existing bridge.
func serveRack(t *testing.T, n network, flags ...string) *provisioning {
	t.Helper()
	p := &provisioning{t: t, dir: filepath.Join(built.dir, "rack"), link: n.link, machine: map[string]*rack.Machine{}}
	testkit.Must(t, os.MkdirAll(p.dir, 0o700))
	span := func(last byte) string {
		b := n.address.As4()
		b[3] = last
		return netip.AddrFrom4(b).String()
	}
	p.server = &served{t: t, state: filepath.Join(p.dir, "state"), http: n.address.String() + ":8080", address: n.address.String() + ":8443",
		flags: append([]string{"--netboot-interface", n.link, "--dhcp", "on", "--dhcp-range", span(n.first) + "-" + span(n.last), "--discovery-image", os.Getenv(discoveryEnv),
			"--discovery-arg", "naupegos.lldp=1s", "--discovery-arg", "naupegos.pause=2s", "--discovery-arg", "quiet"}, flags...)}
	p.server.start()
	t.Cleanup(p.server.kill)
	t.Cleanup(func() {
		if t.Failed() {
			saving(t, "rack")("server.log", p.server.text())
		}
	})
	r := naupegos(t, invocation{}, "--state-dir", p.server.state, "server", "token", "create", "test", "--role", "admin")
	if r.code != 0 {
		t.Fatal(r)
	}
	p.token = strings.TrimSpace(r.stdout)
	return p
}

// run runs a command through the server, which must succeed.
func (p *provisioning) run(args ...string) string {
	p.t.Helper()
	r := naupegos(p.t, p.asking(), args...)
	if r.code != 0 {
		p.t.Fatal(r)
	}
	return r.stdout
}

func (p *provisioning) asking() invocation {
	return invocation{timeout: 45 * time.Minute, env: []string{"NAUPEGOS_SERVER=https://" + p.server.address, "NAUPEGOS_TOKEN=" + p.token, "NAUPEGOS_SERVER_CA=" + filepath.Join(p.server.state, "server-ca.crt")}}
}

// show returns the server's record of a machine.
func (p *provisioning) show(machine string) (d client.Detail, err error) {
	r := naupegos(p.t, p.asking(), "machine", "show", machine, "-o", "json")
	if r.code != 0 {
		return d, fmt.Errorf("%s", r)
	}
	return d, json.Unmarshal([]byte(r.stdout), &d)
}

// add puts a machine into the rack, switched off and with an empty disk.
func (p *provisioning) add(s rack.Spec) *rack.Machine {
	t := p.t
	t.Helper()
	n := len(p.machine) + 1
	s.MAC, s.BMC, s.Password = fmt.Sprintf("52:54:00:91:00:%02x", n), fmt.Sprint("127.0.0.1:", testkit.FreePort(t)), testkit.Secret
	m := testkit.Value(rack.New(context.WithoutCancel(t.Context()), filepath.Join(p.dir, s.Name), p.link, s))(t)
	p.machine[s.Name] = m
	t.Cleanup(func() {
		if t.Failed() {
			saving(t, "rack")(s.Name+".console.log", m.Console())
		}
		testkit.Must(t, m.Close())
	})
	return m
}

// discovered waits until machines that were switched on have reported their facts.
func (p *provisioning) discovered(machines ...*rack.Machine) {
	t := p.t
	t.Helper()
	for _, m := range machines {
		until(t, 5*time.Minute*slower, time.Second, func() error {
			d, err := p.show(m.MAC)
			if err == nil && d.Asks == "" && d.Key == "" {
				err = fmt.Errorf("%s has not enrolled yet: %s", m.Name, d.State)
			}
			return err
		})
	}
}

// employed switches machines on by IPMI, approves and names them, and gives the server access to their BMCs.
func (p *provisioning) employed(machines ...*rack.Machine) {
	t := p.t
	t.Helper()
	for _, m := range machines {
		testkit.Value(bmc.IPMI{}.Power(t.Context(), bmc.Access{Address: m.BMC, User: rack.User, Password: []byte(testkit.Secret)}, "on", bmc.FromNetwork))(t)
	}
	p.discovered(machines...)
	password := filepath.Join(p.dir, "password")
	testkit.Must(t, os.WriteFile(password, []byte(testkit.Secret), 0o600))
	for _, m := range machines {
		d := testkit.Value(p.show(m.MAC))(t)
		if d.Approval != "pending" || !strings.Contains(m.Console(), d.Asks) {
			t.Errorf("%s: %s; asks with %s, which its console does not show", m.Name, d.Approval, d.Asks)
		}
		p.run("machine", "approve", m.MAC, "--key", d.Asks)
		p.run("machine", "name", m.MAC, m.Name)
		p.run("machine", "bmc", m.Name, "--address", m.BMC, "--user", rack.User, "--password-file", password)
	}
}

// TestDiscovery: unknown machines with BIOS and with UEFI are switched on, boot over the network and report their facts; they are approved, and
// then switched by IPMI.
func TestDiscovery(t *testing.T) {
	if !inRack(t) {
		return
	}
	p := newProvisioning(t)
	old, modern := p.add(rack.Spec{Name: "old", MemoryMiB: 768}), p.add(rack.Spec{Name: "modern", UEFI: true, MemoryMiB: 768})
	began := time.Now()
	p.employed(old, modern)
	t.Logf("both are known and approved %v after power-on", time.Since(began).Round(time.Second))
	for _, m := range []*rack.Machine{old, modern} {
		d := testkit.Value(p.show(m.MAC))(t)
		f := d.Facts
		if d.UUID != m.UUID || f == nil || len(f.Disks) != 1 || f.Disks[0].Serial != "DISK-"+m.Name || f.Disks[0].SizeBytes != 12<<30 || len(f.Disks[0].Holds) > 0 || f.System == nil ||
			f.System.Serial != "S-"+m.Name || f.System.Product != "rack" || f.System.MemoryBytes < 600<<20 || len(f.Interfaces) != 1 || f.Interfaces[0].MAC != m.MAC {
			t.Errorf("%s says %+v", m.Name, f)
		}
		if out := p.run("machine", "power", m.Name, "status"); !strings.Contains(out, "on") {
			t.Errorf("%s: %s", m.Name, out)
		}
		until(t, 2*time.Minute*slower, time.Second, testkit.That(m.Name+" knows that it is approved", func() bool { return strings.Contains(m.Console(), "the machine is approved") }))
		p.run("machine", "power", m.Name, "off", "--yes")
		if m.On() {
			t.Errorf("%s is still on", m.Name)
		}
	}
	if out := p.run("machine", "list"); strings.Contains(out, testkit.Secret) || !strings.Contains(out, "modern") || strings.Count(out, "approved") != 2 {
		t.Error(out)
	}
}
