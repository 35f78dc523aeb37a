//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostsProvider makes a cluster of machines that exist already and are given by address and host key, and takes it
// away again: the machines stay, what was put on them goes.
func TestHostsProvider(t *testing.T) {
	t.Parallel()
	const cp, worker = "host-a", "host-b"
	f := newFleet(t, "e2ehosts", nil, cp, worker)
	r := newRig(t, "hosted")
	before := map[string]string{cp: f.census(cp), worker: f.census(worker)}
	r.hostsDocument(f, map[string]string{cp: "control-plane", worker: "worker"})

	r.portsInUse(f, cp, worker)
	r.neverReached(f)
	res := r.must(2, "plan", "-f", r.file)
	if strings.Contains(res.stdout, "destroy") {
		t.Errorf("the first plan destroys: %v", res)
	}
	r.apply()
	r.healthy()
	r.unchanged()
	if keys := f.run(cp, "cat /root/.ssh/authorized_keys2"); strings.TrimSpace(keys) != somebodysKey {
		t.Errorf("the document's key does not let anybody in: %q", keys)
	}
	if res := r.must(0, "apply", "-f", r.file, "--yes"); !strings.Contains(res.stdout, "No changes") {
		t.Errorf("the second apply changes something: %v", res)
	}
	r.must(0, "destroy", r.name, "--yes")
	for _, m := range []string{cp, worker} {
		f.run(m, "test ! -e /root/.ssh/authorized_keys2")
		f.run(m, "test ! -e /var/lib/naupegos || test -z \"$(find /var/lib/naupegos -type f)\"")
		after := f.census(m) // which proves that it still runs, and lets its owner in
		for _, line := range difference(before[m], after) {
			t.Errorf("%s: destroy left a difference: %s", m, line)
		}
		if out := f.run(m, "systemctl is-active kubelet containerd || true"); strings.Contains(out+"\n", "\nactive\n") || strings.HasPrefix(out, "active") {
			t.Errorf("%s: kubelet or containerd still runs: %s", m, out)
		}
	}
}

// somebodysKey may log in, by the document.
const somebodysKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA e2e"

// neverReached adds a host that does not answer: nothing is begun anywhere.
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

// hostsDocument writes a document whose machines are the fleet's, by role.
func (r *rig) hostsDocument(f *fleet, roles map[string]string) {
	r.t.Helper()
	for _, role := range roles {
		if role == "worker" {
			r.size.workers++
		} else {
			r.size.controlPlanes++
		}
	}
	key := filepath.Join(r.dir, "id_ed25519")
	if err := os.WriteFile(key, f.key, 0o600); err != nil {
		r.t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: %s\nspec:\n  access:\n    sshKeys: [%s]\n  endpoint:\n    kind: direct\n", r.name, somebodysKey)
	fmt.Fprintf(&b, "  provider:\n    hosts:\n      sshKeyFile: %s\n      machines:\n", key)
	for name, role := range roles {
		m := f.machine[name]
		fmt.Fprintf(&b, "        - name: %s\n          address: %s\n          role: %s\n          hostKey: %s\n", name, m.Address, role, m.HostKeys[0])
	}
	if err := os.WriteFile(r.file, []byte(b.String()), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// census lists what a cluster could leave on a machine: files where clusters put theirs, units, links, processes, mounts. What cloud-init
// writes in its last stage, which comes at its own time, is left out.
func (f *fleet) census(name string) string {
	f.t.Helper()
	return f.run(name, `
for d in /etc /opt /usr/local /var/lib/kubelet /var/lib/etcd /var/lib/containerd /var/lib/cni /var/log/pods /var/log/containers /var/log/kubernetes /run/flannel /run/containerd /run/naupegos; do
  find $d -xdev \( -path /etc/naupegos-\* -o -name 50-cloud-init.conf -o -name '*~' -o -name '*.cache' -o -name ld.so.cache \) -prune -o -print 2>/dev/null | sed 's/^/file /'
done
systemctl list-unit-files --no-legend --plain --type=service | sed 's/ .*//; s/^/unit /'
ip -o link | sed 's/^[0-9]*: //; s/[:@].*//; s/^/link /'
ps -eo comm= | grep -E 'kube|etcd|containerd|flannel|coredns|pause|naupegos|haproxy|keepalived' | sed 's/^/process /'
awk '{print "mount " $5}' /proc/self/mountinfo | grep -E 'kube|containerd|netns|cni|etcd'
nft list tables 2>/dev/null | grep -vE '^table ip6? (filter|nat|mangle)$' | sed 's/^/nft /' # empty tables of iptables stay
iptables-save 2>/dev/null | grep -E 'KUBE|FLANNEL|CNI' | sed 's/^/iptables /'
ip6tables-save 2>/dev/null | grep -E 'KUBE|FLANNEL|CNI' | sed 's/^/ip6tables /'
true`)
}

// difference lists lines that only one of two texts has.
func difference(before, after string) []string {
	had, has := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(before) {
		had[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(after) {
		has[strings.TrimSpace(line)] = true
	}
	var out []string
	for line := range has {
		if !had[line] {
			out = append(out, "new "+line)
		}
	}
	for line := range had {
		if !has[line] {
			out = append(out, "gone "+line)
		}
	}
	return out
}
