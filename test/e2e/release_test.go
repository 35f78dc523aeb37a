//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// runs lists a machine's containers and units with their processes, and the manifests of static pods.
const runs = `ctr -n k8s.io tasks ls | sort
systemctl show -p MainPID kubelet.service containerd.service
sha256sum /etc/kubernetes/manifests/* 2>/dev/null
true`

// ofNaupegos lists everything that a release must remove: Naupegos' state and programs, links to them, processes, units, tables, rights.
const ofNaupegos = `ls -d /var/lib/naupegos /usr/local/lib/naupegos/agent 2>/dev/null
find /usr/local/bin /opt/cni/bin -type l -lname '*naupegos*'
ps -eo comm= | grep naupegos
systemctl list-unit-files --no-legend --plain 'naupegos-approver*' 'naupegos-filter*'
nft list tables | grep naupegos
true`

const askAdmin = "kubectl --kubeconfig /etc/kubernetes/admin.conf "

// TestRelease makes a small cluster on a user's hosts and releases it, killed at every step boundary: nothing restarts, no trace of Naupegos stays,
// and kubeadm can manage the cluster.
func TestRelease(t *testing.T) {
	t.Parallel()
	var plain v1alpha1.Cluster
	plain.Default()
	version := plain.Spec.Kubernetes.Version
	const cp, worker, later = "own-a", "own-b", "own-c"
	f := newFleet(t, "e2eown", bundletest.Of(t, version), cp, worker, later)
	r := newRig(t, "released")
	key := filepath.Join(r.dir, "id_ed25519")
	testkit.Must(t, os.WriteFile(key, f.key, 0o600))
	var doc strings.Builder
	fmt.Fprintf(&doc, "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: %s\nspec:\n  endpoint:\n    kind: direct\n  provider:\n    hosts:\n      sshKeyFile: %s\n      machines:\n", r.name, key)
	for name, role := range map[string]string{cp: "control-plane", worker: "worker"} {
		m := f.machine[name]
		fmt.Fprintf(&doc, "        - {name: %s, address: %s, role: %s, hostKey: %s}\n", name, m.Address, role, m.HostKeys[0])
	}
	testkit.Must(t, os.WriteFile(r.file, []byte(doc.String()), 0o644))
	r.size.controlPlanes, r.size.workers = 1, 1
	r.apply()
	r.healthy()

	dir := filepath.Join(r.dir, "mine")
	if res := r.must(2, "release", r.name, dir, "--dry-run"); strings.Contains(res.stdout, "restart unit") || !strings.Contains(res.stdout, "Disruption: none") {
		t.Errorf("something is to restart: %v", res)
	}
	until(t, time.Minute, 500*time.Millisecond, func() error { // the objects of the smoke test go by themselves
		if all := f.run(cp, askAdmin+"get pods -A --no-headers | grep -v ^kube- || true"); all != "" {
			return fmt.Errorf("there are pods besides: %s", all)
		}
		return nil
	})
	before := map[string]string{cp: f.run(cp, runs), worker: f.run(worker, runs)}
	killed := invocation{bin: built.kill, env: []string{"NAUPEGOS_KILL_ONCE=" + filepath.Join(r.dir, "boundaries")}}
	r.calm.end()
	began, died := time.Now(), 0
	for {
		res := naupegos(t, killed, "--state-dir", r.state, "release", r.name, dir, "--yes")
		if res.code == 9 && died > 0 || res.code == 0 { // killed after the last step, the cluster is forgotten
			break
		}
		if died++; res.code != -1 || died > 20 {
			t.Fatalf("after %d deaths: %v", died, res)
		}
		if died == 1 {
			if res := r.must(4, "apply", "-f", r.file, "--yes"); !strings.Contains(res.stderr, "naupegos release "+r.name) {
				t.Errorf("an apply in between: %v", res)
			}
		}
	}
	t.Logf("FIGURE a release that was killed at %d boundaries: %v", died, time.Since(began).Round(100*time.Millisecond))
	for _, m := range []string{cp, worker} {
		if now := f.run(m, runs); now != before[m] {
			t.Errorf("on %s runs something else:\n%s\nbefore:\n%s", m, now, before[m])
		}
		if left := f.run(m, ofNaupegos); left != "" {
			t.Errorf("left on %s is\n%s", m, left)
		}
	}
	if res := r.must(0, "status"); !strings.Contains(res.stdout, "No clusters") {
		t.Errorf("it is still known: %v", res)
	}
	for _, name := range []string{"README.md", "kubeconfig", "cluster.yaml", "pki/ca.key", "pki/sa.key", "pki/etcd/ca.key"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the hand-over's %s: %v", name, err)
		}
	}
	if mine, theirs := testkit.Value(os.ReadFile(filepath.Join(dir, "pki/ca.key")))(t), f.run(cp, "cat /etc/kubernetes/pki/ca.key"); string(mine) != theirs {
		t.Error("the authority that was handed over is not the cluster's")
	}
	ownersCluster(t, f, cp, worker, later)
}

// ownersCluster runs kubeadm as a cluster's owner does: it lists and renews certificates, and joins a machine.
func ownersCluster(t *testing.T, f *fleet, cp, worker, later string) {
	out := f.run(cp, "kubeadm certs check-expiration 2>&1")
	if !strings.Contains(out, "etcd-ca") || strings.Contains(out, "MISSING") {
		t.Errorf("kubeadm certs check-expiration:\n%s", out)
	}
	if out := f.run(cp, "kubeadm certs renew apiserver 2>&1"); !strings.Contains(out, "renewed") {
		t.Errorf("kubeadm certs renew:\n%s", out)
	}
	if rights := f.run(cp, askAdmin+"get clusterroles,clusterrolebindings -o name"); strings.Contains(rights, "naupegos:approver") {
		t.Errorf("the approver still has rights")
	}
	f.unpack(later, []byte(f.run(worker, "tar -C / -chf - usr/local/bin/containerd usr/local/bin/containerd-shim-runc-v2 usr/local/bin/kubelet usr/local/bin/kubeadm "+
		"opt/cni/bin etc/containerd etc/systemd/system/containerd.service etc/systemd/system/kubelet.service etc/systemd/system/kubelet.service.d/10-kubeadm.conf")))
	f.run(later, "sysctl -q -w net.ipv4.ip_forward=1; systemctl daemon-reload && systemctl enable --now containerd.service && systemctl enable kubelet.service")
	f.join(t, cp, later)
	// The owner approves kubelets' serving certificates; then their logs can be read through the API.
	until(t, time.Minute, 500*time.Millisecond, func() error {
		waiting := strings.Fields(f.run(cp, askAdmin+"get csr --no-headers | awk '/kubernetes.io.kubelet-serving/ && /Pending/ {print $1}'"))
		if len(waiting) == 0 {
			return fmt.Errorf("%s has not asked for a serving certificate", later)
		}
		f.run(cp, askAdmin+"certificate approve "+strings.Join(waiting, " "))
		return nil
	})
	until(t, time.Minute, 500*time.Millisecond, func() error {
		out, err := f.try(cp, askAdmin+"get --raw /api/v1/nodes/"+later+"/proxy/healthz 2>&1")
		if err != nil || !strings.Contains(out, "ok") {
			return fmt.Errorf("kubelet on %s says through the API: %s", later, out)
		}
		return nil
	})
}
