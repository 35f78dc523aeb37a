//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// clean asserts that a host that left a cluster is as it was before. A host that began with a bundle's images and binaries has lost them.
func (f *fleet) clean(t testing.TB, name, before string) {
	t.Helper()
	f.run(name, "test ! -e /root/.ssh/authorized_keys2")
	f.run(name, "test ! -e /var/lib/naupegos || test -z \"$(find /var/lib/naupegos -type f)\"")
	for _, line := range difference(before, f.census(name)) {
		if prepared := strings.HasPrefix(line, "gone file "+machine.ContainerdRoot); !prepared || f.bare[name] {
			t.Errorf("%s left the cluster with a difference: %s", name, line)
		}
	}
	if out := f.run(name, "systemctl is-active kubelet containerd || true"); strings.Contains(out+"\n", "\nactive\n") || strings.HasPrefix(out, "active") {
		t.Errorf("%s: kubelet or containerd still runs: %s", name, out)
	}
}

// strip removes a bundle's files from hosts, so that a cluster must send them all.
func (f *fleet) strip(names ...string) {
	f.t.Helper()
	for _, n := range names {
		f.run(n, "rm -rf "+machine.StateDir+"; find "+machine.ContainerdRoot+" -mindepth 1 -delete")
		f.bare[n] = true
	}
}

// sudoer is a user of the fleet's machines who logs in with the fleet's key and may become root.
const sudoer = "keeper"

// hire adds the sudoer.
func (f *fleet) hire(names ...string) {
	f.t.Helper()
	signer := testkit.Value(remote.ParseKey(f.key))(f.t)
	for _, n := range names {
		f.run(n, "useradd -m "+sudoer+" && install -d -o "+sudoer+" -m 700 ~"+sudoer+"/.ssh && echo '"+remote.PublicKey(signer)+"' > ~"+sudoer+
			"/.ssh/authorized_keys && chown "+sudoer+" ~"+sudoer+"/.ssh/authorized_keys && echo '"+sudoer+" ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/"+sudoer)
	}
}

// census lists everything that a cluster could leave on a machine: files in the places that clusters use, units, links, processes, mounts. It omits
// the files that cloud-init writes in its last stage, at any time.
func (f *fleet) census(name string) string {
	f.t.Helper()
	return f.run(name, `
for d in /etc /opt /usr/local /var/lib/kubelet /var/lib/etcd /var/lib/containerd /var/lib/cni /var/log/pods /var/log/containers /var/log/kubernetes /run/flannel /run/containerd /run/naupegos; do
  find $d -xdev \( -path /etc/naupegos-\* -o -name 50-cloud-init.conf -o -name '*~' -o -name '*.cache' -o -name ld.so.cache \) -prune -o -print 2>/dev/null | sed 's/^/file /'
done
systemctl list-unit-files --no-legend --plain --type=service | sed 's/ .*//; s/^/unit /'
ip -o link | sed 's/^[0-9]*: //; s/[:@].*//; s/^/link /'
ps -eo comm= | grep -E 'kube|etcd|containerd|flannel|coredns|pause|naupegos|haproxy|keepalived' | sed 's/^/process /'
ps -eo args= | grep -oE '^/var/lib/naupegos/[^ ]*' | sed 's/^/process /'
awk '{print "mount " $5}' /proc/self/mountinfo | grep -E 'kube|containerd|netns|cni|etcd'
nft list tables 2>/dev/null | grep -vE '^table ip6? (filter|nat|mangle)$' | sed 's/^/nft /' # empty tables of iptables stay
iptables-save 2>/dev/null | grep -E 'KUBE|FLANNEL|CNI' | sed 's/^/iptables /'
ip6tables-save 2>/dev/null | grep -E 'KUBE|FLANNEL|CNI' | sed 's/^/ip6tables /'
true`)
}

// difference lists the lines that only one of two texts has.
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
