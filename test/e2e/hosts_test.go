//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// hosts are a user's machines, with their roles in the document. The document does not contain the spare one at first.
var hosts = []struct{ name, role string }{
	{"host-g", "gateway"}, {"host-h", "gateway"}, {"host-a", "control-plane"}, {"host-b", "control-plane"}, {"host-c", "control-plane"},
	{"host-d", "worker"}, {"host-e", "worker"}, {spareHost, "control-plane"},
}

const spareHost = "host-f"

// TestHostsProvider makes a highly available cluster of existing machines, given by address and host key, with a login user other than root. It
// puts the cluster through the failures of hosts, resets it, and removes it: the machines stay, without any trace of the cluster.
func TestHostsProvider(t *testing.T) {
	t.Parallel()
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	var plain v1alpha1.Cluster
	plain.Default()
	f := newFleet(t, "e2ehosts", bundletest.Of(t, plain.Spec.Kubernetes.Version), names...)
	f.hire(names...)
	if testkit.Full() {
		f.strip(names...)
	} else { // the other hosts already have the files that the cluster would send
		f.strip("host-e", spareHost)
	}
	before := map[string]string{}
	for _, n := range names {
		before[n] = f.census(n)
	}
	r := newRig(t, "hosted")
	r.hostsDocument(f, spareHost)
	r.portsInUse(f, "host-a", "host-d")
	r.neverReached(f)
	if res := r.must(2, "plan", "-f", r.file); strings.Contains(res.stdout, "destroy") {
		t.Errorf("the first plan destroys: %v", res)
	}
	r.apply()
	r.healthy()
	r.passesItsTest(t)
	fencedOff(t, f.machine["host-a"].Address, "2379", "2380", "10250")
	fencedOff(t, f.machine["host-d"].Address, "10250")
	if keys := f.run("host-a", "cat /root/.ssh/authorized_keys2"); strings.TrimSpace(keys) != somebodysKey {
		t.Errorf("the document's key is not authorised: %q", keys)
	}
	r.live(t, nil, testkit.Sample(t, 1, []part{
		{"a host is off, and another one reboots", func(t *testing.T, r *rig, _ *load) { r.hostsRestart(t, f, "host-e", "host-c") }},
		{"a host replaces another one, and a third leaves and comes back", func(t *testing.T, r *rig, _ *load) { r.hostsLeave(t, f, before, "host-b", "host-d") }},
	}))
	r.hostsReset(t, f, before)
	r.must(0, "destroy", r.name, "--yes")
	for _, n := range names {
		f.clean(t, n, before[n]) // the check shows that it still runs, and lets its owner log in
	}
}

// fencedOff asserts that a machine's packet filter blocks ports where it listens for us, who are no machine of the cluster. SSH answers.
func fencedOff(t *testing.T, address string, ports ...string) {
	t.Helper()
	for _, port := range append(ports, "22") {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, port), time.Second)
		if err == nil {
			conn.Close()
		}
		if open := err == nil; open != (port == "22") {
			t.Errorf("port %s of %s: %v", port, address, err)
		} else if timeout, ok := errors.AsType[net.Error](err); !open && (!ok || !timeout.Timeout()) {
			t.Errorf("port %s of %s is not filtered: %v", port, address, err) // the port is not open, but not filtered either
		}
	}
}

// hostsRestart shuts a host down, which status notices, and switches it on again as its owner would, and reboots another one. Both recover by
// themselves.
func (r *rig) hostsRestart(t *testing.T, f *fleet, off, reboots string) {
	t.Helper()
	stopped := r.must(0, "machine", "stop", r.name, off, "--yes")
	until(t, time.Minute, 100*time.Millisecond, func() error { // it no longer answers; its last processes may take a moment
		if m := testkit.Value(f.p.Machine(t.Context(), off))(t); m.State != provider.Stopped {
			return fmt.Errorf("%s was shut down, and is %s", off, m.State)
		}
		return nil
	})
	st := r.status()
	i := slices.IndexFunc(st.Machines, func(m report.MachineStatus) bool { return m.Name == off })
	if m := st.Machines[i]; st.Healthy || m.State != string(provider.Unreachable) || !strings.Contains(m.Config, off) {
		t.Errorf("%s is off, and status says %+v", off, m)
	}
	if plan := r.must(2, "plan", "-f", r.file).stdout; !strings.Contains(plan, "configure worker "+off) || !strings.Contains(plan, "it does not answer: "+off) {
		t.Errorf("%s is off, and the plan says\n%s", off, plan)
	}

	if res := r.must(4, "destroy", r.name, "--yes"); !strings.Contains(res.stderr, "--consent leave-behind") || !strings.Contains(res.stderr, "release host "+off) {
		t.Errorf("%s is off, and destroy says %v", off, res)
	}

	boot := f.run(reboots, bootTime)
	if _, err := f.try(reboots, "systemctl reboot"); err != nil {
		t.Logf("%s disconnected during its reboot: %v", reboots, err)
	}
	testkit.Must(t, f.p.Power(t.Context(), off, "on"))
	took := testkit.Until(t, 2*time.Minute, time.Second, func() error {
		switch now, err := f.try(reboots, bootTime); {
		case err != nil:
			return err
		case now == boot:
			return fmt.Errorf("%s has not rebooted", reboots)
		}
		return r.size.check(r.status())
	})
	t.Logf("%s was shut down in %v; once it was switched on, and %s was told to reboot, all was well after %v", off, stopped.took.Round(time.Second), reboots, took.Round(time.Second))
	r.unchanged()
}

// bootTime tells a machine's boots apart.
const bootTime = "systemctl show -p UserspaceTimestampMonotonic --value"

// hostsLeave replaces a host by the spare one and removes a worker, in one edit. Both are as they were before, and the worker can come back.
func (r *rig) hostsLeave(t *testing.T, f *fleet, before map[string]string, replaced, worker string) {
	t.Helper()
	r.leads(replaced) // the new member must learn from the leaving one
	r.hostsDocument(f, replaced, worker)
	plan := r.must(2, "plan", "-f", r.file).stdout
	for _, want := range []string{"through the packet filters", "configure control-plane " + spareHost,
		"2 machines: " + replaced + ", " + worker + "\n    ~ drain node ", "    - clean  (the machine stays", "release host " + worker} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan does not say %q:\n%s", want, plan)
		}
	}
	r.apply()
	r.healthy()
	for _, n := range []string{replaced, worker} {
		f.clean(t, n, before[n])
	}
	nodes := r.must(0, "kubectl", r.name, "--", "get", "nodes", "-o", "name").stdout
	if strings.Contains(nodes, replaced) || strings.Contains(nodes, worker) || !strings.Contains(nodes, spareHost) {
		t.Errorf("the nodes are %s", nodes)
	}
	r.hostsDocument(f, replaced)
	r.apply()
	r.healthy()
}

// leads makes a machine's member the leader of etcd, with etcd's members in pods.
func (r *rig) leads(machine string) {
	r.t.Helper()
	const pki = "/etc/kubernetes/pki/etcd/"
	etcdctl := func(args ...string) string {
		inPod := []string{"kubectl", r.name, "--", "exec", "-n", "kube-system", "etcd-" + machine, "--",
			"etcdctl", "--cacert", pki + "ca.crt", "--cert", pki + "healthcheck-client.crt", "--key", pki + "healthcheck-client.key"}
		return r.must(0, append(inPod, args...)...).stdout
	}
	var id string
	var all []string
	for line := range strings.Lines(etcdctl("--endpoints", "https://127.0.0.1:2379", "member", "list")) {
		f := strings.Split(strings.TrimSpace(line), ", ") // ID, status, name, peer URLs, client URLs, whether it is a learner
		if len(f) < 5 {
			r.t.Fatalf("etcdctl lists %q", line)
		}
		if all = append(all, f[4]); f[2] == machine {
			id = f[0]
		}
	}
	etcdctl("--endpoints", strings.Join(all, ","), "move-leader", id)
}

// somebodysKey may log in, according to the document.
const somebodysKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA e2e"

// neverReached adds an unreachable host: no machine is changed.
func (r *rig) neverReached(f *fleet) {
	r.t.Helper()
	doc, err := os.ReadFile(r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	where := f.machine["host-a"].Address
	where = where[:strings.LastIndex(where, ".")] + ".251"
	line := "        - name: host-z\n          address: " + where + "\n          role: worker\n          hostKey: " + f.machine["host-a"].HostKeys[0] + "\n"
	file := filepath.Join(r.dir, "unreachable.yaml")
	if err := os.WriteFile(file, append(doc, line...), 0o644); err != nil {
		r.t.Fatal(err)
	}
	res := r.run("apply", "-f", file, "--yes")
	if res.code != 7 || !strings.Contains(res.stderr, "1 machine can't be used yet; nothing was begun: host-z") {
		r.t.Errorf("a host does not answer: %v", res)
	}
	if res := r.must(0, "status"); !strings.Contains(res.stdout, "No clusters") {
		r.t.Errorf("something was begun: %v", res)
	}
}

// hostsDocument writes a document with the fleet's machines, except some.
func (r *rig) hostsDocument(f *fleet, without ...string) {
	r.t.Helper()
	r.calm.end()
	key := filepath.Join(r.dir, "id_ed25519")
	if err := os.WriteFile(key, f.key, 0o600); err != nil {
		r.t.Fatal(err)
	}
	vip := testkit.Value(f.p.VIP(context.Background()))(r.t)
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: %s\nspec:\n  access:\n    sshKeys: [%s]\n", r.name, somebodysKey)
	fmt.Fprintf(&b, "  endpoint:\n    kind: gateways\n    vip: %s\n  provider:\n    hosts:\n      sshKeyFile: %s\n      user: %s\n      machines:\n", vip, key, sudoer)
	count := map[string]int{}
	for _, h := range hosts {
		if slices.Contains(without, h.name) {
			continue
		}
		count[h.role]++
		m := f.machine[h.name]
		fmt.Fprintf(&b, "        - name: %s\n          address: %s\n          role: %s\n          hostKey: %s\n", h.name, m.Address, h.role, m.HostKeys[0])
	}
	r.size.gateways, r.size.controlPlanes, r.size.workers = count["gateway"], count["control-plane"], count["worker"]
	if err := os.WriteFile(r.file, []byte(b.String()), 0o644); err != nil {
		r.t.Fatal(err)
	}
}
