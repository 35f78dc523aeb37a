//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/testkit"
)

// remains lists everything that a reset must remove from a machine: processes, files of the cluster, packet filter tables and links.
const remains = `ps -eo comm=,args= | grep -vE '^(sh|grep|ps|sudo) ' | grep -E 'kube|etcd|containerd|flannel|coredns|pause|naupegos'
find /etc/kubernetes /var/lib/etcd /var/lib/kubelet /etc/cni/net.d /var/lib/cni /run/flannel -type f 2>/dev/null
test ! -e /var/lib/naupegos || find /var/lib/naupegos/agent -type f ! -name lock
nft list tables | grep -E 'kube|flannel|cni|naupegos'
ip -br link | grep -E 'cni0|flannel|veth'
true`

// isClean asserts that nothing of a cluster is left on a machine.
func (r *rig) isClean(t *testing.T, machine string) {
	t.Helper()
	if left := strings.TrimSpace(r.look(machine, remains)); left != "" {
		t.Errorf("%s is not clean:\n%s", machine, left)
	}
}

// hostsReset removes Kubernetes from all hosts of a cluster, which are then as they were before. With -full, it builds another cluster on them.
func (r *rig) hostsReset(t *testing.T, f *fleet, before map[string]string) {
	t.Helper()
	began := time.Now()
	r.must(0, "reset", r.name, "--yes")
	t.Logf("FIGURE reset of %d hosts: %v", r.size.controlPlanes+r.size.workers+r.size.gateways, time.Since(began).Round(100*time.Millisecond))
	for name, census := range before {
		f.clean(t, name, census)
	}
	if plan := r.must(2, "plan", "-f", r.file).stdout; !strings.Contains(plan, "configure control-plane host-a") {
		t.Errorf("the hosts are reset, and the plan says\n%s", plan)
	}
	if testkit.Full() {
		r.apply()
		r.healthy()
		r.passesItsTest(t)
	}
}

// resetsOne resets a worker, asserts that it is clean, and lets it join again.
func (r *rig) resetsOne(t *testing.T, worker string) {
	began := time.Now()
	r.must(0, "reset", r.name, "--machine", worker, "--yes")
	t.Logf("FIGURE reset of one machine: %v", time.Since(began).Round(100*time.Millisecond))
	r.isClean(t, worker)
	if _, err := r.api().CoreV1().Nodes().Get(t.Context(), worker, metav1.GetOptions{}); err == nil {
		t.Errorf("its node is still there")
	}
	r.apply()
	r.healthy()
}

// resetsAll removes Kubernetes from all machines, killed at every step boundary, and builds another cluster on them: the machines are the same, and
// the former cluster's credentials do not work.
func (r *rig) resetsAll(t *testing.T, machines ...string) {
	old := filepath.Join(r.dir, "former.conf")
	testkit.Must(t, os.WriteFile(old, []byte(r.must(0, "kubeconfig", r.name).stdout), 0o600))
	if _, err := r.api().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "former"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	booted := r.look(machines[0], "stat -c %Y /proc/1")
	began, runs, once := time.Now(), 0, "NAUPEGOS_KILL_ONCE="+filepath.Join(r.dir, "boundaries")
	for r.diesAgain(&runs, 4*(len(machines)+1), once, "reset", r.name, "--yes") {
		if runs == 1 {
			if res := r.must(4, "apply", "-f", r.file, "--yes"); !strings.Contains(res.stderr, "naupegos reset "+r.name+" continues") {
				t.Errorf("an apply in between: %v", res)
			}
		}
	}
	t.Logf("FIGURE a reset that was killed at %d boundaries: %v", runs, time.Since(began).Round(100*time.Millisecond))
	if runs < 2*(len(machines)+1) {
		t.Errorf("it was killed %d times only", runs)
	}
	for _, m := range machines {
		r.isClean(t, m)
	}
	r.apply()
	r.healthy()
	if again := r.look(machines[0], "stat -c %Y /proc/1"); again != booted {
		t.Errorf("the machine is another one, or was booted: %s, %s before", again, booted)
	}
	if _, err := r.api().CoreV1().ConfigMaps("default").Get(t.Context(), "former", metav1.GetOptions{}); err == nil {
		t.Error("the former cluster's data is in the new one")
	}
	if res := r.call("kubectl", r.name, "--", "--kubeconfig", old, "get", "nodes"); res.code == 0 {
		t.Errorf("the former kubeconfig lets in: %v", res)
	}
	r.must(0, "kubectl", r.name, "--", "get", "nodes")
}
