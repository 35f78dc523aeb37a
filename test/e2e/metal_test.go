//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/discover"
	"github.com/naupegos/naupegos/internal/agent/install"
	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/image"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/rack"
)

// The cluster on physical machines, and its machines: the first is a container of this host, the others are emulated.
const (
	racked       = "racked"
	rackedCP     = racked + "-cp-1"
	rackedOld    = racked + "-old-1"
	rackedModern = racked + "-modern-1"
)

const rackedDocument = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: ` + racked + `}
spec:
  provider:
    metal:
      installTimeout: 40m
      pools:
        - {name: control-plane, machines: [native]}
        - {name: old, facts: {product: rack}, machines: [old]}
        - {name: modern, facts: {product: rack}, machines: [modern]}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1}
  workers: [{name: old, replicas: 1}, {name: modern, replicas: 1}]
  timeouts: {connect: 1m, machineBoot: 15m, nodeReady: 15m, step: 40m}
  smokeTest: false
`

// TestMetal takes machines from power-on to a cluster and back: unknown machines with BIOS and with UEFI are switched on by IPMI, boot over the network, report
// their facts, are approved, claimed for the pools of a document and installed, boot from their disks, and join a cluster as workers; its control plane
// runs in a container of this host. One changes to another system, drained, under the lease; the other falls back from a system that does not boot.
// In the end the cluster returns all machines.
func TestMetal(t *testing.T) {
	b := bundletest.Of(t, release.Default)
	if os.Getenv(systemsEnv) == "" {
		t.Setenv(systemsEnv, makeMetalSystems(t, b))
		prepareFleet(t, b)
	}
	if !inRack(t) {
		return
	}
	began := time.Now()
	lap := func(what string) { t.Logf("%s after %v", what, time.Since(began).Round(time.Second)) }
	f := newFleet(t, "e2emetal", b, rackedCP)
	lap("the container runs")
	p := serveFleet(t, f)
	p.cluster = racked
	p.offers("good")
	old, modern := p.add(rack.Spec{Name: "old", DiskGiB: 20}), p.add(rack.Spec{Name: "modern", UEFI: true, DiskGiB: 20})
	native := p.enlist(f, rackedCP)
	p.run("machine", "name", native, "native")
	p.employed(old, modern)
	lap("all machines are approved")

	file := filepath.Join(p.dir, "cluster.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(rackedDocument), 0o600))
	t.Log(p.run("apply", "-f", file, "--yes"))
	lap("the cluster is there")
	p.ready(3)
	for _, m := range []*rack.Machine{old, modern} {
		w := racked + "-" + m.Name + "-1"
		if out := p.in(w, "hostname; cat /proc/cmdline; findmnt -no SOURCE /; cat /var/lib/naupegos-machine/machine.json"); !strings.HasPrefix(out, w+"\n") ||
			!strings.Contains(out, "naupegos.slot=a") || !strings.Contains(out, "/dev/vda1\n") || !strings.Contains(out, m.UUID) {
			t.Errorf("%s: %s", w, out)
		}
	}
	if r := naupegos(t, p.asking(), "apply", "-f", file, "--yes"); r.code != 0 || !strings.Contains(r.stdout, "No changes") {
		t.Errorf("there is more to do: %v", r)
	}
	for _, w := range []string{rackedOld, rackedModern} {
		p.hasten(w)
	}

	t.Run("another system", func(t *testing.T) {
		host := p.in(rackedModern, whoItIs)
		p.offers("next")
		if r := p.renewed(t, modern); r.code != 0 {
			t.Fatal(r)
		}
		if d := testkit.Value(p.show("modern"))(t); d.Slot != "b" || d.Report.Digest != d.Wanted {
			t.Errorf("it runs %s from slot %s, and is to have %s", d.Report.Digest, d.Slot, d.Wanted)
		}
		if now := p.in(rackedModern, whoItIs); now != host {
			t.Errorf("the machine was\n%s\nand is\n%s", host, now)
		}
		lap("modern has another system")
	})
	t.Run("a bad system", func(t *testing.T) {
		p.withdraw("next")
		p.offers("bad")
		good := testkit.Value(p.show("old"))(t).Wanted
		r := p.renewed(t, old)
		if d := testkit.Value(p.show("old"))(t); r.code == 0 || d.Slot != "a" || d.Report.Digest != good || d.Refused == "" || !strings.Contains(r.String(), "went back to the one before") {
			t.Errorf("it runs %s from slot %s, and has gone back from %q: %v", d.Report.Digest, d.Slot, d.Refused, r)
		}
		if log := old.Console(); !strings.Contains(log, "naupegos.slot=b naupegos.trial=1") || !strings.Contains(log, "anic") {
			t.Error("the bad system was not tried")
		}
		p.withdraw("bad")
		p.run("apply", "-f", file, "--yes") // pods may come back
		lap("old has left the bad system")
	})
	p.ready(3)

	p.run("destroy", racked, "--yes")
	for _, m := range []string{"native", "old", "modern"} {
		if d := testkit.Value(p.show(m))(t); d.Cluster != "" {
			t.Errorf("%s is still %s's", m, d.Cluster)
		}
	}
	if old.On() || modern.On() {
		t.Error("machines were given back, and are on")
	}
	lap("the machines are given back")
}

// whoItIs shows the identity of a machine, independent of its system.
const whoItIs = "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub"

// serveFleet starts a server on the bridge of a fleet, which assigns addresses to other machines there.
func serveFleet(t *testing.T, f *fleet) *provisioning {
	t.Helper()
	for _, line := range []string{"link set " + f.p.Bridge() + " type bridge mcast_snooping 0"} { // no querier exists, and router solicitations must get through
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	var any string
	for _, m := range f.machine {
		any = m.Address
	}
	at := netip.MustParseAddr(any).As4()
	at[3] = 1
	return serveRack(t, network{f.p.Bridge(), netip.AddrFrom4(at), 200, 250})
}

// enlist makes a container of a fleet one of the server's machines: approved, and installed once ordered. It acts like a machine that boots from
// the network, except for the disk. It returns the machine's UUID.
func (p *provisioning) enlist(f *fleet, name string) string {
	t := p.t
	t.Helper()
	const uuid = "7b0ce8a1-3f0e-4d0b-9c55-52540091f001"
	key := testkit.Value(facts.NewKey())(t)
	address, mac := f.machine[name].Address, strings.TrimSpace(f.run(name, "cat /sys/class/net/host0/address"))
	d := &facts.Discovery{
		Boot:       facts.BootInfo{UUID: uuid, MAC: mac, RandomID: strings.TrimSpace(f.run(name, "cat /proc/sys/kernel/random/boot_id"))},
		Interfaces: []facts.Interface{{Name: "host0", MAC: mac, IPv4: address, CIDRv4: address + "/24", Netmask: 24}},
		Disks:      []facts.Disk{{Path: "/dev/none", SizeBytes: 64 << 30, Serial: "NONE"}},
		LLDP:       facts.LLDP{Data: facts.LLDPData{Interfaces: []facts.Neighbour{}}}, Journal: []string{}, System: &facts.System{Product: "container"},
	}
	enrolled := make(chan *discover.Enrolled, 1)
	go func() {
		e, err := discover.Enrol(t.Context(), d, key, discover.Options{Server: "http://" + p.server.http, Pause: 100 * time.Millisecond, Longest: time.Second})
		if err != nil {
			t.Errorf("%s does not enrol: %v", name, err)
		}
		enrolled <- e
	}()
	until(t, time.Minute, 100*time.Millisecond, func() error {
		_, err := p.show(uuid)
		return err
	})
	p.run("machine", "approve", uuid, "--key", facts.Fingerprint(key.Public()))
	e := <-enrolled
	if e == nil {
		t.FailNow()
	}
	id := install.Identity{UUID: uuid, MAC: mac, Server: "https://" + p.server.address, Certificate: e.Certificate, Key: key,
		Authority: string(testkit.Value(os.ReadFile(filepath.Join(p.server.state, "server-ca.crt")))(t))}
	go func() {
		if err := p.settle(t.Context(), f, name, id); err != nil && t.Context().Err() == nil {
			t.Errorf("%s is not installed: %v", name, err)
		}
	}()
	return uuid
}

// settle waits for the order to install a container, and turns it into the ordered machine, with the agent as a service.
func (p *provisioning) settle(ctx context.Context, f *fleet, name string, id install.Identity) error {
	server, err := ask.New(ask.Identity{UUID: id.UUID, Server: id.Server, Authority: []byte(id.Authority), Key: id.Key, Certificate: []byte(id.Certificate)})
	if err != nil {
		return err
	}
	var o *order.Order
	for o, err = server.Begin(ctx); err != nil; o, err = server.Begin(ctx) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
	dir := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), install.SaveIdentity(dir, id)); err != nil {
		return err
	}
	identity, err := os.ReadFile(filepath.Join(dir, install.IdentityFile))
	if err != nil {
		return err
	}
	installed, err := json.Marshal(o)
	if err != nil {
		return err
	}
	files := map[string]string{
		install.StateDir + "/" + install.IdentityFile: string(identity), install.InstalledFile: string(installed),
		"/etc/naupegos-cmdline":                      "naupegos.slot=a\n", // the command line of the host's kernel names no slot
		"/root/.ssh/authorized_keys2":                strings.Join(o.SSHKeys, "\n") + "\n",
		"/etc/systemd/system/naupegos-agent.service": "[Service]\nBindReadOnlyPaths=/etc/naupegos-cmdline:/proc/cmdline\nExecStart=/usr/local/lib/naupegos/naupegos-agent keep\n",
	}
	agent, err := os.ReadFile(filepath.Join(filepath.Dir(built.bin), "naupegos-agent"))
	if err != nil {
		return err
	}
	files["/usr/local/lib/naupegos/naupegos-agent"] = string(agent)
	for path, text := range files {
		if _, err := f.dialer.Run(ctx, f.host(name), strings.NewReader(text), "sh", "-c", "umask 077; mkdir -p $(dirname "+path+"); cat > "+path+"; chmod u+x "+path); err != nil {
			return err
		}
	}
	words := strings.Fields(f.machine[name].HostKeys[0])
	if err := server.Finish(ctx, true, []string{words[0] + " " + words[1]}, []string{"installed"}); err != nil {
		return err
	}
	_, err = f.try(name, "systemctl start naupegos-agent")
	return err
}

// offers adds a system of makeMetalSystems to the server, as the newest.
func (p *provisioning) offers(name string) {
	p.t.Helper()
	all := image.SystemsDir(p.server.state)
	testkit.Must(p.t, os.MkdirAll(all, 0o755))
	if out, err := exec.Command("cp", "-alT", filepath.Join(os.Getenv(systemsEnv), name), all).CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
}

// withdraw removes such a system again.
func (p *provisioning) withdraw(name string) {
	p.t.Helper()
	for _, e := range testkit.Value(os.ReadDir(filepath.Join(os.Getenv(systemsEnv), name)))(p.t) {
		testkit.Must(p.t, os.RemoveAll(filepath.Join(image.SystemsDir(p.server.state), e.Name())))
	}
}

// in runs a shell command on a machine of the cluster.
func (p *provisioning) in(machine, command string) string {
	p.t.Helper()
	r := naupegos(p.t, invocation{}, "--state-dir", p.server.state, "ssh", p.cluster, machine, "--", command)
	if r.code != 0 {
		p.t.Fatal(r)
	}
	return r.stdout
}

// hasten makes a machine's agent report every ten seconds until its system changes, and removes its mirrors, because none is reachable.
func (p *provisioning) hasten(machine string) {
	p.t.Helper()
	p.in(machine, `set -e
d=/etc/systemd/system/naupegos-agent.service.d
mkdir -p $d
printf '[Service]\nExecStart=\nExecStart=/usr/local/lib/naupegos/naupegos-agent keep -every 10s\n' > $d/often.conf
: > /etc/apt/sources.list
systemctl daemon-reload
systemctl restart naupegos-agent`)
}

// nodes lists the cluster's nodes.
func (p *provisioning) nodes() ([]nodes.NodeRow, error) {
	r := naupegos(p.t, p.asking(), "node", "list", p.cluster, "-o", "json")
	if r.code != 0 || r.stderr != "" { // stderr: why the API does not answer
		return nil, errors.New(r.String())
	}
	var l struct{ Items []nodes.NodeRow }
	err := json.Unmarshal([]byte(r.stdout), &l)
	return l.Items, err
}

// ready waits until exactly n nodes exist, all Ready and schedulable.
func (p *provisioning) ready(n int) {
	p.t.Helper()
	until(p.t, settle*slower, time.Second, func() error {
		l, err := p.nodes()
		if err == nil && (len(l) != n || slices.ContainsFunc(l, func(r nodes.NodeRow) bool { return r.Node != "Ready" })) {
			err = fmt.Errorf("%+v", l)
		}
		return err
	})
}

// renewed updates one worker, and asserts that it is drained and holds the reboot slot meanwhile, and gives the slot back.
func (p *provisioning) renewed(t *testing.T, m *rack.Machine) result {
	t.Helper()
	worker := p.cluster + "-" + m.Name + "-1"
	api := testkit.Value(kube.NewClient([]byte(p.run("kubeconfig", p.cluster)), kube.ClientOptions{}))(t)
	got := make(chan result, 1)
	go func() { got <- naupegos(t, p.asking(), "update", p.cluster, "--machine", worker, "--yes") }()
	var ended *result
	place := "reboot/" + p.cluster + ".machines"
	until(t, 20*time.Minute*slower, 3*time.Second, func() error { // each look takes a tenth of a second from emulated processors
		select {
		case r := <-got:
			ended = &r
			return nil
		default:
		}
		if out := p.run("machine", "locks"); !strings.Contains(out, place) {
			return errors.New("no machine holds the reboot slot: " + out)
		}
		return nil
	})
	if ended != nil {
		t.Fatalf("the machine had no place among those that reboot: %v", *ended)
	}
	// node list would wait for the rebooting machine, until its node takes pods again.
	if n, err := api.Node(t.Context(), worker); err != nil || !n.Unschedulable {
		t.Errorf("%s reboots, and takes pods: %+v, %v", worker, n, err)
	}
	r := <-got
	t.Logf("the update took %v", r.took.Round(time.Second))
	until(t, time.Minute*slower, 3*time.Second, func() error {
		if out := p.run("machine", "locks"); strings.Contains(out, place) {
			return errors.New(out)
		}
		return nil
	})
	return r
}
