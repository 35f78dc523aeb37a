//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// unhurt is the bound of a client in an upgrade: no failures if the host has time. Beside other tests a request may take longer than the client
// waits.
var unhurt = bound{failed: 3, stall: 10 * time.Second}

// upgrades are the possible courses of an upgrade: each begins with the former release.
var upgrades = []part{
	{"an upgrade is taken back", upgradeTakenBack},
	{"an upgrade is killed at every step", func(t *testing.T, r *rig, l *load) {
		passed, runs := filepath.Join(r.dir, "upgrade-boundaries"), 0
		soak(t, r, l, func() {
			for r.applyKilled("NAUPEGOS_KILL_ONCE="+passed) != "" {
				if runs++; runs > 100 {
					t.Fatalf("no apply comes to its end after %d", runs)
				}
			}
		})
		t.Logf("FIGURE %d applies were killed in the middle of an upgrade", runs)
		if runs < 10 {
			t.Errorf("%d applies were killed only", runs)
		}
		r.goesBack(t, l)
	}},
	{"an upgrade is finished", upgradeFinished},
}

// upgradeTakenBack upgrades from the former release to the last hop with a way back, and goes back.
func upgradeTakenBack(t *testing.T, r *rig, l *load) {
	soak(t, r, l, func() { r.apply() })
	r.goesBack(t, l)
}

func (r *rig) goesBack(t *testing.T, l *load) {
	r.upgrade(t, l, "back", "--back")
	r.size.kubernetes = release.Former(1)
	r.runs(release.Former(1), release.Former(1))
}

// upgradeFinished upgrades from the former release to the default and finishes the upgrade, with a surge of one worker.
func upgradeFinished(t *testing.T, r *rig, l *load) {
	soak(t, r, l, func() { r.apply() })
	r.size.extra += "  updates: {maxSurge: 1}\n"
	r.document(r.size)
	r.pauses(t, r.name+"-cp-1")
	c := countWorkers(t, l)
	r.upgrade(t, l, "finish", "--finish")
	c.end(t, r.size.workers)
	r.runs(release.Default, release.Default)
	if res := r.call("upgrade", r.name, "--back"); res.code != 4 || !strings.Contains(res.stderr, "backup") {
		t.Errorf("there is no way back any more: %v", res)
	}
}

// soak upgrades to the last hop with a way back: it writes the document, and apply applies it.
func soak(t *testing.T, r *rig, l *load, apply func()) {
	t.Helper()
	to := r.size
	to.kubernetes = release.Default
	r.document(to)
	w, m, began := startWatch(t, l), l.mark(), time.Now()
	apply()
	t.Logf("FIGURE upgrade soak: %v", time.Since(began).Round(time.Second))
	w.end(t, unhurt)
	l.suffered(t, "upgrade until there is a way back", m, unhurt)
	l.verify(t)
	r.healthy()
	r.runs(release.Default, release.Former(1))
	version := r.must(0, "kubectl", r.name, "--", "get", "--raw", "/version").stdout
	minor := strings.TrimPrefix(release.MinorOf(release.Former(1)), "1.")
	if !strings.Contains(version, release.Default) || !strings.Contains(version, fmt.Sprintf("%q: %q", "emulationMinor", minor)) {
		t.Errorf("the API servers should behave as 1.%s: %s", minor, version)
	}
}

// upgrade continues an upgrade under the client.
func (r *rig) upgrade(t *testing.T, l *load, what string, flags ...string) {
	t.Helper()
	w, m, began := startWatch(t, l), l.mark(), time.Now()
	r.must(0, append([]string{"upgrade", r.name, "-f", r.file, "--yes"}, flags...)...)
	t.Logf("FIGURE upgrade %s: %v", what, time.Since(began).Round(time.Second))
	w.end(t, unhurt)
	l.suffered(t, "upgrade "+what, m, unhurt)
	l.verify(t)
	r.healthy()
}

// podTakers counts the schedulable workers continuously.
type podTakers struct {
	stop        context.CancelFunc
	done        sync.WaitGroup
	least, most int
	failed      []string
}

// countWorkers starts a count through l's client.
func countWorkers(t testing.TB, l *load) *podTakers {
	ctx, stop := context.WithCancel(context.Background())
	c := &podTakers{stop: stop, least: 1000}
	t.Cleanup(stop)
	note := func(what string, err error) bool {
		if err != nil && ctx.Err() == nil {
			c.failed = append(c.failed, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), what, err))
		}
		return err == nil
	}
	workers := metav1.ListOptions{LabelSelector: "naupegos.dev/pool"}
	c.done.Go(func() {
		for ctx.Err() == nil {
			list, err := l.api().CoreV1().Nodes().List(ctx, workers)
			if !note("list nodes", err) {
				continue
			}
			takes := map[string]bool{}
			for _, n := range list.Items {
				takes[n.Name] = takesPods(&n)
			}
			c.count(takes)
			from := workers
			from.ResourceVersion = list.ResourceVersion
			stream, err := l.api().CoreV1().Nodes().Watch(ctx, from)
			if !note("watch nodes", err) {
				continue
			}
			for e := range stream.ResultChan() {
				n, ok := e.Object.(*corev1.Node)
				if !ok {
					break // the watch is too old: list again
				}
				takes[n.Name] = e.Type != watch.Deleted && takesPods(n)
				c.count(takes)
			}
			stream.Stop()
		}
	})
	return c
}

// takesPods reports whether a node is Ready and schedulable.
func takesPods(n *corev1.Node) bool {
	return !n.Spec.Unschedulable && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (c *podTakers) count(takes map[string]bool) {
	n := 0
	for _, yes := range takes {
		if yes {
			n++
		}
	}
	c.least, c.most = min(c.least, n), max(c.most, n)
}

// end stops the count, and asserts that there were always at least wanted workers and at some time, but never more than, one more.
func (c *podTakers) end(t testing.TB, wanted int) {
	t.Helper()
	c.stop()
	c.done.Wait()
	t.Logf("FIGURE workers that take pods in a roll with a surge of 1: %d to %d, %d are wanted", c.least, c.most, wanted)
	if c.least < wanted || c.most != wanted+1 || len(c.failed) > unhurt.failed*int(slower) {
		t.Errorf("workers that took pods were %d to %d, %d are wanted; %s", c.least, c.most, wanted, strings.Join(c.failed[:min(len(c.failed), 10)], "; "))
	}
}

// pauses finishes an upgrade up to a control-plane machine: it runs the new release then, and the workers do not.
func (r *rig) pauses(t *testing.T, machine string) {
	t.Helper()
	r.calm.end()
	if res := r.call("upgrade", r.name, "-f", r.file, "--yes", "--finish", "--pause-after", machine); res.code != 0 || !strings.Contains(res.stdout, "Paused. ") {
		t.Fatalf("it did not pause: %v", res)
	}
	if run := answered[plan.RunRecord](t, r, "history", r.name, "last"); run.Meta[operate.MetaPause] != machine {
		t.Errorf("the journal does not say that it paused after %s: %v", machine, run.Meta)
	}
	for _, m := range r.status().Machines {
		want := release.Former(1)
		if m.Name == machine {
			want = release.Default
		}
		if (m.Name == machine || m.Role == string(provider.Worker)) && m.Version != want {
			t.Errorf("kubelet on %s is %s, want %s", m.Name, m.Version, want)
		}
	}
}

// runs asserts the releases of the control plane's servers and of the kubelets, as the running programs report them: kubelet's report about its static
// pods may be minutes old.
func (r *rig) runs(servers, kubelets string) {
	r.t.Helper()
	for _, m := range r.status().Machines {
		if m.Role != string(provider.Gateway) && m.Version != kubelets {
			r.t.Errorf("kubelet on %s is %s, want %s", m.Name, m.Version, kubelets)
		}
		if m.Role != string(provider.ControlPlane) {
			continue
		}
		for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			if got := strings.TrimSpace(r.look(m.Name, "/proc/$(pidof "+program+")/exe --version")); got != "Kubernetes "+servers {
				r.t.Errorf("%s on %s is %q, want %s", program, m.Name, got, servers)
			}
		}
	}
}

// TestStuckUpgrade has a control-plane machine on which the new API server does not start. The upgrade stops there and reports it, the cluster
// keeps serving, and --back works although the machine is still sick; after the repair, the upgrade succeeds.
func TestStuckUpgrade(t *testing.T) {
	testkit.OnlyFull(t, "TestHA takes an upgrade back, and unit tests have one changed its mind in the middle of each hop")
	t.Parallel()
	r := newRig(t, "stuck")
	r.document(size{controlPlanes: 3, workers: 1, gateways: 2, kubernetes: release.Former(1), extra: "  timeouts: {machineBoot: 3m, nodeReady: 3m, drain: 1m, step: 3m}\n"})
	r.apply()
	sick := r.name + "-cp-2"
	// Regardless of the order of the roll and of the leader: only the new release can't run on this machine.
	r.ssh(sick, `cat > /root/sickness <<'END'
while sleep 0.2; do
  if grep -q "kube-apiserver:`+release.Default+`" /etc/kubernetes/manifests/kube-apiserver.yaml; then kill -9 $(pidof kube-apiserver) 2>/dev/null; fi
done
END
systemd-run --quiet --unit=sickness sh /root/sickness`)

	l := startLoad(t, r)
	l.flows(t, 5)
	m := l.mark()
	res := r.call("upgrade", r.name, "--to", release.Default, "--yes", "-f", r.file)
	if res.code != 5 || !strings.Contains(res.stderr, sick) || !strings.Contains(res.stderr, "kube-apiserver") {
		t.Fatalf("the upgrade should stop at %s and name its API server: %v", sick, res)
	}
	t.Logf("FIGURE the upgrade stopped after %v: %s", res.took.Round(time.Second), strings.TrimSpace(res.stderr[strings.LastIndex(strings.TrimSpace(res.stderr), "\n")+1:]))
	l.flows(t, 5)
	for _, m := range r.status().Machines {
		// The sick machine's kubelet reports to the API server on the same machine.
		if m.Role != string(provider.Gateway) && (m.Node != "Ready" && m.Name != sick || m.Version != release.Former(1)) {
			t.Errorf("no machine should have gone beyond its servers, and the others' nodes be Ready: %+v", m)
		}
	}

	r.must(0, "upgrade", r.name, "--back", "--yes", "-f", r.file)
	r.size.kubernetes = release.Former(1)
	r.healthy()
	r.runs(release.Former(1), release.Former(1))
	l.suffered(t, "an upgrade that is stuck, and taken back", m, harsh)
	l.verify(t)

	r.ssh(sick, "systemctl stop sickness.service")
	r.must(0, "upgrade", r.name, "--to", release.Default, "--yes", "-f", r.file)
	r.healthy()
	r.runs(release.Default, release.Former(1))
	l.verify(t)
	l.end()
	r.destroy()
}

// watcher lists and watches the load's objects continuously. If the server ends a watch, the watcher begins another one.
type watcher struct {
	stop context.CancelFunc
	done sync.WaitGroup

	lists, watches, events int
	failed                 []string
}

// startWatch starts a watcher beside l.
func startWatch(t testing.TB, l *load) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{stop: stop}
	t.Cleanup(stop)
	note := func(what string, err error) bool {
		if err != nil && ctx.Err() == nil {
			w.failed = append(w.failed, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), what, err))
		}
		return err == nil
	}
	w.done.Go(func() {
		for ctx.Err() == nil {
			list, err := l.api().CoreV1().ConfigMaps(loadSpace).List(ctx, metav1.ListOptions{})
			if !note("list", err) {
				continue
			}
			w.lists++
			stream, err := l.api().CoreV1().ConfigMaps(loadSpace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if !note("watch", err) {
				continue
			}
			w.watches++
			for e := range stream.ResultChan() {
				if w.events++; e.Type == watch.Error {
					note("watch", errors.New(fmt.Sprint(e.Object)))
				}
			}
		}
	})
	return w
}

// end stops the watcher, and asserts that its failures are within bounds.
func (w *watcher) end(t testing.TB, at bound) {
	t.Helper()
	w.stop()
	w.done.Wait()
	t.Logf("FIGURE %d lists, %d watches with %d events, %d requests failed", w.lists, w.watches, w.events, len(w.failed))
	if len(w.failed) > at.failed*int(slower) || w.events == 0 {
		t.Errorf("lists and watches failed: %s", strings.Join(w.failed[:min(len(w.failed), 10)], "; "))
	}
}
