//go:build e2e

package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestKubeadmCompat: a small cluster of ours keeps its secrets, and is an ordinary kubeadm cluster: kubeadm plans an upgrade of it, lists its
// certificates, and joins a machine that Naupegos does not manage.
func TestKubeadmCompat(t *testing.T) {
	bench := compileKubeBench(t)
	t.Parallel() // from here on, other tests have machines, which compilers would slow down
	r := newRig(t, "compat")
	r.document(size{controlPlanes: 1, workers: 1})
	args := testkit.WatchArguments(t)
	applied := r.must(0, "apply", "-f", r.file, "--yes", "--progress", "json")
	version := r.healthy().Kubernetes
	r.live(t, nil, []part{
		{"no secret is anywhere", func(_ *testing.T, r *rig, _ *load) { r.secretsNowhere(args, applied) }},
		{"kubeadm knows the cluster", func(t *testing.T, r *rig, _ *load) { r.kubeadmKnows(t, "compat-cp-1", version) }},
		{"a control-plane machine keeps to the CIS benchmark", func(t *testing.T, r *rig, _ *load) {
			r.judgedByCIS(t, bench, "compat-cp-1", "control-plane", "master,controlplane,etcd,node")
		}},
		{"a worker keeps to the CIS benchmark", func(t *testing.T, r *rig, _ *load) { r.judgedByCIS(t, bench, "compat-general-1", "worker", "node") }},
		{"certificates are renewed", func(t *testing.T, r *rig, _ *load) { r.renews(t, "compat-general-1") }},
		{"kubeadm joins a machine", func(_ *testing.T, r *rig, _ *load) { r.joinForeign("compat-cp-1", "compat-general-1", version) }},
		{"a machine is reset and joins again", func(t *testing.T, r *rig, _ *load) { r.resetsOne(t, "compat-general-1") }},
		{"the cluster is reset and built again", func(t *testing.T, r *rig, _ *load) { r.resetsAll(t, "compat-cp-1", "compat-general-1") }},
	})
	r.destroy()
}

// kubeadmKnows asserts that kubeadm, on a control-plane machine, plans upgrades and lists certificates.
func (r *rig) kubeadmKnows(t *testing.T, cp, version string) {
	t.Helper()
	// Its own version needs no upgrade; the next one needs all of it.
	out := r.ssh(cp, "kubeadm upgrade plan "+version+" --ignore-preflight-errors=SystemVerification 2>&1")
	t.Logf("kubeadm upgrade plan %s:\n%s", version, out)
	if !strings.Contains(out, "Cluster version: "+strings.TrimPrefix(version, "v")) {
		t.Errorf("kubeadm upgrade plan does not know the cluster's version %s", version)
	}
	next := nextPatch(t, version)
	out = r.ssh(cp, "kubeadm upgrade plan "+next+" --ignore-preflight-errors=SystemVerification 2>&1")
	t.Logf("kubeadm upgrade plan %s:\n%s", next, out)
	for _, want := range []string{"kube-apiserver", "etcd", "CoreDNS", "kubeadm upgrade apply " + next} {
		if !strings.Contains(out, want) {
			t.Errorf("kubeadm upgrade plan does not speak of %s", want)
		}
	}
	out = r.ssh(cp, "kubeadm certs check-expiration 2>&1")
	t.Logf("kubeadm certs check-expiration:\n%s", out)
	for _, want := range []string{"admin.conf", "apiserver", "apiserver-etcd-client", "etcd-peer", "front-proxy-client", "scheduler.conf", "super-admin.conf", "etcd-ca"} {
		if !strings.Contains(out, want) {
			t.Errorf("kubeadm certs check-expiration does not list %s", want)
		}
	}
	if strings.Contains(out, "MISSING") || strings.Contains(out, "<invalid>") {
		t.Error("kubeadm misses certificates")
	}
}

// nextPatch returns the next patch release.
func nextPatch(t testing.TB, version string) string {
	t.Helper()
	i := strings.LastIndex(version, ".")
	n, err := strconv.Atoi(version[i+1:])
	if err != nil {
		t.Fatalf("version %s: %v", version, err)
	}
	return version[:i+1] + itoa(n+1)
}

// joinForeign joins a foreign machine with kubeadm and runs a pod there.
func (r *rig) joinForeign(cp, worker, version string) {
	t := r.t
	const node = "foreign-1"
	f := newFleet(t, "e2ejoin", bundletest.Of(t, version), node)
	// The contents of a distribution's packages: runtime, kubelet with its unit, kubeadm, CNI plugins, kernel settings. No files of the cluster and no
	// CNI configuration.
	prepared := r.ssh(worker, "tar -C / -chf - usr/local/bin/containerd usr/local/bin/containerd-shim-runc-v2 usr/local/bin/kubelet usr/local/bin/kubeadm "+
		"opt/cni/bin etc/containerd")
	f.unpack(node, []byte(prepared))
	units := r.ssh(worker, "cd / && tar -chf - etc/systemd/system/containerd.service etc/systemd/system/kubelet.service etc/systemd/system/kubelet.service.d/10-kubeadm.conf")
	f.unpack(node, []byte(units))
	f.run(node, "sysctl -q -w net.ipv4.ip_forward=1; systemctl daemon-reload && systemctl enable --now containerd.service && systemctl enable kubelet.service")

	join := strings.TrimSpace(r.ssh(cp, "kubeadm token create --print-join-command 2>/dev/null"))
	if !strings.HasPrefix(join, "kubeadm join ") {
		t.Fatalf("no join command: %s", join)
	}
	began := time.Now()
	out, err := f.try(node, join+" --ignore-preflight-errors=SystemVerification 2>&1")
	if err != nil {
		journal, _ := f.try(node, "journalctl -u kubelet -u containerd --no-pager -n 60")
		t.Fatalf("kubeadm join: %v\n%s\n%s", err, out, journal)
	}
	api := r.api()
	until(t, 2*time.Minute, 250*time.Millisecond, func() error {
		n, err := api.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				if c.Status == corev1.ConditionTrue {
					return nil
				}
				return fmt.Errorf("%s", c.Message)
			}
		}
		return fmt.Errorf("the node has no Ready condition")
	})
	t.Logf("FIGURE kubeadm join to Ready: %v", time.Since(began).Round(100*time.Millisecond))
	r.runPod(node, version)
	r.foreignRequests(node)
	r.unchanged() // a foreign node is not managed
	// Remove it as its owner would.
	if err := api.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// runPod runs a pod with the bundle's pause image on a node.
func (r *rig) runPod(node, version string) {
	r.t.Helper()
	pause, err := bundletest.Of(r.t, version).Image("pause")
	if err != nil {
		r.t.Fatal(err)
	}
	pods := r.api().CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "pause", Image: pause.Ref, ImagePullPolicy: corev1.PullNever}},
	}}
	if _, err := pods.Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	until(r.t, time.Minute, 250*time.Millisecond, func() error {
		p, err := pods.Get(r.t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
			return fmt.Errorf("pod is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		r.t.Logf("a pod runs on %s with address %s", node, p.Status.PodIP)
		return nil
	})
}

// foreignRequests asserts that nothing signs a serving certificate for a foreign machine: that is up to its owner.
func (r *rig) foreignRequests(node string) {
	r.t.Helper()
	until(r.t, time.Minute, 250*time.Millisecond, func() error {
		list, err := r.api().CertificatesV1().CertificateSigningRequests().List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			c := &list.Items[i]
			if c.Spec.SignerName != "kubernetes.io/kubelet-serving" || c.Spec.Username != "system:node:"+node {
				continue
			}
			if len(c.Status.Conditions) > 0 {
				r.t.Errorf("%s was decided on: %+v", c.Name, c.Status.Conditions)
			}
			r.t.Logf("the serving certificate of %s is left to its owner: %s is pending", node, c.Name)
			return nil
		}
		return fmt.Errorf("%s has not asked for a serving certificate", node)
	})
}
