package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLeftovers: one leftover of each kind, and lookalikes.
func TestLeftovers(t *testing.T) {
	for path, want := range map[string]bool{
		"/etc/kubernetes/manifests/kube-vip.yaml": true, "/etc/kubernetes/manifests/.kubelet-keep": false, "/etc/kubernetes/manifests/README.md": false,
		"/etc/cni/net.d/10-calico.conflist": true, "/etc/cni/net.d/calico-kubeconfig": false,
		"/var/lib/etcd/member": true, "/var/lib/etcd/default": false,
		"/sys/class/net/cni0": true, "/sys/class/net/docker0": false,
	} {
		dir := t.TempDir()
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
		if filepath.Base(path) == "member" {
			testkit.Must(t, os.Mkdir(filepath.Join(dir, path), 0o700))
		} else {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, path), nil, 0o600))
		}
		if got := Root(dir).Leftovers(); slices.Contains(got, path) != want || len(got) > 1 {
			t.Errorf("%s: %q", path, got)
		}
	}
}
