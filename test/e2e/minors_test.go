//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// flawless is the bound of a client with the host to itself: the test runs alone.
var flawless = bound{failed: 0, stall: unhurt.stall}

// TestMinors takes a highly available cluster over two minor versions with one command, to the end of both, under a client that lists, watches and
// writes without retries. It runs alone: no request may fail.
func TestMinors(t *testing.T) {
	testkit.OnlyFull(t, "TestHA takes one minor, and internal/cluster/hops goes from every release to every other one")
	from, through, to := release.Former(2), release.Former(1), release.Default
	for _, v := range []string{from, through, to} {
		bundletest.Of(t, v)
	}
	r := newRig(t, "minors")
	r.inv.timeout = 45 * time.Minute
	s := size{controlPlanes: 3, workers: 2, gateways: 2, kubernetes: from}
	r.document(s)
	r.apply()
	r.runs(from, from)
	r.tags(s, from)
	before := r.fill(30)
	l := startLoad(t, r)
	l.flows(t, 5)

	w, m := startWatch(t, l), l.mark()
	res := r.must(0, "upgrade", r.name, "-f", r.file, "--to", to, "--finish", "--yes")
	t.Logf("FIGURE upgrade from %s through %s to %s by one command: %v", from, through, to, res.took.Round(time.Second))
	w.end(t, flawless)
	l.suffered(t, "two minors", m, flawless)
	for _, v := range []string{through, to} {
		if !strings.Contains(res.stderr, "everything runs "+v) {
			t.Errorf("the plan does not say that everything runs %s: %s", v, res.stderr)
		}
	}

	s.kubernetes, r.size.kubernetes = to, to
	r.healthy()
	r.runs(to, to)
	r.tags(s, to)
	l.verify(t)
	after := r.kept(clientOf(t, r.kubeconfig()))
	for key, digest := range before {
		if after[key] != digest {
			t.Errorf("%s has changed", key)
		}
	}
	t.Logf("FIGURE %d objects from before are what they were, by digest", len(before))
	secondApply(t, r, l)
	l.verify(t)
	l.end()
	r.destroy()
}

// tags asserts that all pods of the control plane, cluster DNS and kube-proxy are ready, and none is of another release.
func (r *rig) tags(s size, version string) {
	r.t.Helper()
	rel, known := release.Find(version)
	if !known {
		r.t.Fatalf("there is no release %s", version)
	}
	want := map[string]struct {
		tag  string
		pods int
	}{
		"kube-apiserver": {version, s.controlPlanes}, "kube-controller-manager": {version, s.controlPlanes}, "kube-scheduler": {version, s.controlPlanes},
		"etcd": {rel.EtcdTag(), s.controlPlanes}, "kube-proxy": {version, s.controlPlanes + s.workers}, "coredns": {rel.CoreDNS, 2},
	}
	until(r.t, settle*slower, time.Second, func() error {
		pods, err := r.api().CoreV1().Pods(metav1.NamespaceSystem).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := map[string]int{}
		for _, p := range pods.Items {
			for _, c := range p.Status.ContainerStatuses {
				w, ours := want[c.Name]
				if !ours || p.DeletionTimestamp != nil {
					continue
				}
				if !strings.HasSuffix(c.Image, ":"+w.tag) {
					return fmt.Errorf("%s runs %s, want %s", p.Name, c.Image, w.tag)
				}
				if c.Ready {
					ready[c.Name]++
				}
			}
		}
		for name, w := range want {
			if ready[name] != w.pods {
				return fmt.Errorf("%d pods of %s are ready, want %d", ready[name], name, w.pods)
			}
		}
		return nil
	})
}
