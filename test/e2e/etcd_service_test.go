//go:build e2e

package e2e_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider"
)

// TestEtcdService makes a cluster with etcd as a systemd unit, and grows its control plane from one machine to three under a client; one of them
// loses its power and comes back. There are no workers: pods run on the control plane, which the smoke test shows.
func TestEtcdService(t *testing.T) {
	bench := compileKubeBench(t)
	t.Parallel() // from here on, other tests have machines, which compilers would slow down
	r := newRig(t, "etcdsvc")
	s := size{controlPlanes: 1, gateways: 1, extra: "  etcd:\n    mode: service\n"}
	r.document(s)
	r.applyInParts("infrastructure", "gateways", "cluster", "addons", "test")
	r.encryptionChanges(t, s, "etcdsvc-cp-1")
	r.judgedByCIS(t, bench, "etcdsvc-cp-1", "control-plane", "master,controlplane,etcd,node")
	l := startLoad(t, r)
	l.flows(t, 5)
	m := l.mark()
	s.controlPlanes, s.extra = 3, s.extra+auditLog
	r.document(s)
	r.apply()
	l.report(t, "scale control plane 1 → 3, etcd as a service, with an audit log", m)
	l.verify(t)
	r.sameCluster(s)
	for _, m := range machinesOf(r.status(), provider.ControlPlane) {
		out := r.ssh(m.Name, "systemctl is-active etcd.service; systemctl is-enabled etcd.service; ls /etc/kubernetes/manifests")
		if !strings.HasPrefix(out, "active\nenabled\n") || strings.Contains(out, "etcd.yaml") {
			t.Errorf("%s: etcd is not a unit: %s", m.Name, out)
		}
	}
	m = l.mark()
	r.kill("etcdsvc-cp-2")
	l.flows(t, 20)
	l.report(t, "etcd as a service, one machine loses its power", m)
	r.apply()
	l.verify(t)
	r.sameCluster(s)
	l.end()
	r.destroy()
}

// applyInParts builds the cluster part by part. A part that is too early must be refused, omitted parts reported, and nothing left to do in the end.
func (r *rig) applyInParts(parts ...string) {
	r.t.Helper()
	if res := r.must(5, "apply", "-f", r.file, "--yes", "--only", parts[1]); !strings.Contains(res.stderr, "gateways can't come before infrastructure") {
		r.t.Errorf("the wrong reason: %v", res)
	}
	for i, part := range parts {
		res := r.call("apply", "-f", r.file, "--yes", "--only", part) // more is left to do, which run would not accept
		if res.code != 0 {
			r.t.Fatalf("want exit status 0: %v", res)
		}
		if left := strings.Contains(res.stderr+res.stdout, "Left out: "); left != (i < len(parts)-1) {
			r.t.Errorf("--only %s says that something is left out: %t\n%v", part, left, res)
		}
	}
	if res := r.must(0, "apply", "-f", r.file, "--yes"); !strings.Contains(res.stdout, "No changes") {
		r.t.Errorf("something was left: %v", res)
	}
}
