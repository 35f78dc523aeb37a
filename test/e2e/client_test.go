//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/naupegos/naupegos/internal/kube"
)

const (
	requestTimeout = 3 * time.Second        // of each request of the load; a longer one counts as failed
	patience       = time.Minute            // for each request of a test itself: on a busy host etcd takes seconds to write
	requestPause   = 100 * time.Millisecond // between rounds of a write and a read
	flowTime       = time.Minute            // limit until writes flow again: a connection to a dead server is given up after 8 seconds
)

// api returns a patient client of the rig's cluster, through the endpoint.
func (r *rig) api() *kubernetes.Clientset { return r.clientset(patience) }

func (r *rig) clientset(timeout time.Duration) *kubernetes.Clientset {
	r.t.Helper()
	cfg := r.restConfig()
	cfg.Timeout = timeout
	client, err := kube.HTTPClient(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	set, err := kubernetes.NewForConfigAndClient(cfg, client)
	if err != nil {
		r.t.Fatal(err)
	}
	return set
}

func (r *rig) restConfig() *rest.Config {
	r.t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(r.kubeconfig())
	if err != nil {
		r.t.Fatal(err)
	}
	cfg.Timeout, cfg.QPS = requestTimeout, -1
	return cfg
}

// load is a client that writes and reads continuously. It creates an object for every sequence number, increments a counter, and reads back the
// last acknowledged writes.
type load struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	set     kubernetes.Interface
	acked   []string // names of objects whose creation was acknowledged
	counter int      // highest acknowledged value
	version string   // resource version of the counter; empty if unknown
	writes  int      // number of acknowledged writes
	reads   int      // number of answered reads
	failed  []string // failed requests, with time and error
	stale   []string // answers that lack acknowledged writes: never allowed
	lastOK  time.Time
	longest time.Duration // between acknowledged writes
}

const (
	loadSpace = "e2e-load"
	counter   = "counter"
	written   = "written" // the key of an object's name within the objects of the load
)

// startLoad starts the client.
func startLoad(t testing.TB, r *rig) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{set: r.clientset(requestTimeout), stop: cancel, done: make(chan struct{}), lastOK: time.Now()}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: loadSpace}}
	if _, err := l.set.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		cancel()
		t.Fatal(err)
	}
	go l.run(ctx)
	t.Cleanup(l.end)
	return l
}

// api returns the client for further requests.
func (l *load) api() kubernetes.Interface {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set
}

// takes switches the load to another kubeconfig.
func (l *load) takes(set kubernetes.Interface) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = set
}

// end stops the load.
func (l *load) end() {
	l.stop()
	<-l.done
}

func (l *load) run(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(requestPause)
	defer tick.Stop()
	for n := 1; ; n++ {
		l.create(ctx, n)
		l.count(ctx, n)
		l.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note records the outcome of one request; if it succeeded, f is called under the lock.
func (l *load) note(ctx context.Context, what string, err error, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		f()
	case ctx.Err() == nil: // not the load's own stop
		l.failed = append(l.failed, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), what, err))
	}
}

// acknowledged records a write. It is called under the lock.
func (l *load) acknowledged() {
	now := time.Now()
	l.longest = max(l.longest, now.Sub(l.lastOK))
	l.lastOK = now
	l.writes++
}

func (l *load) create(ctx context.Context, n int) {
	name := fmt.Sprintf("seq-%06d", n)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{written: name}}
	_, err := l.api().CoreV1().ConfigMaps(loadSpace).Create(ctx, cm, metav1.CreateOptions{})
	l.note(ctx, "create "+name, err, func() { l.acked = append(l.acked, name); l.acknowledged() })
}

// count updates the counter under its resource version, so that a request that timed out and is executed late can't undo a later one.
func (l *load) count(ctx context.Context, n int) {
	maps := l.api().CoreV1().ConfigMaps(loadSpace)
	if l.version == "" {
		have, err := maps.Get(ctx, counter, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && l.counter == 0 {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: counter}, Data: map[string]string{"n": "0"}}
			have, err = maps.Create(ctx, cm, metav1.CreateOptions{})
		}
		l.note(ctx, "get counter", err, func() { l.version = have.ResourceVersion; l.check(have) })
		return
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: counter, ResourceVersion: l.version}, Data: map[string]string{"n": strconv.Itoa(n)}}
	have, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
	if err != nil {
		l.version = ""
		if apierrors.IsConflict(err) {
			return // the previous request, which counted as failed, was executed after all
		}
	}
	l.note(ctx, "update counter", err, func() { l.version, l.counter = have.ResourceVersion, n; l.acknowledged() })
}

// check compares an answer with the acknowledged writes. It is called under the lock.
func (l *load) check(cm *corev1.ConfigMap) {
	if n, err := strconv.Atoi(cm.Data["n"]); err != nil || n < l.counter {
		l.stale = append(l.stale, fmt.Sprintf("counter is %q after %d was acknowledged", cm.Data["n"], l.counter))
	}
}

func (l *load) read(ctx context.Context) {
	l.mu.Lock()
	name := ""
	if len(l.acked) > 0 {
		name = l.acked[len(l.acked)-1]
	}
	l.mu.Unlock()
	if name == "" {
		return
	}
	_, err := l.api().CoreV1().ConfigMaps(loadSpace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l.mu.Lock()
		l.stale = append(l.stale, name+" is not found after it was acknowledged")
		l.mu.Unlock()
		return
	}
	l.note(ctx, "get "+name, err, func() { l.reads++ })
}

// mark is the load's state at a moment, for comparisons.
type mark struct{ writes, reads, failed int }

func (l *load) mark() mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest, l.lastOK = 0, time.Now()
	return mark{l.writes, l.reads, len(l.failed)}
}

// flows waits until n more writes are acknowledged.
func (l *load) flows(t testing.TB, n int) {
	t.Helper()
	l.mu.Lock()
	goal := l.writes + n
	l.mu.Unlock()
	until(t, flowTime, requestPause, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.writes < goal {
			return fmt.Errorf("%d more writes are to be acknowledged; last failures: %v", goal-l.writes, l.failed[max(0, len(l.failed)-3):])
		}
		return nil
	})
}

// bound is the most that a client may suffer in a phase of a cluster's life.
type bound struct {
	failed int           // failed requests
	stall  time.Duration // longest time between acknowledged writes, including the delays of busy machines
}

var (
	// Machines change one after another and in good order: a request under way may be lost, and etcd elects leaders.
	gentle = bound{failed: 10, stall: 10 * time.Second}
	// A machine loses its power: requests time out until all clients notice, the last ones through their connections, which take 8 seconds.
	harsh = bound{failed: 40, stall: 20 * time.Second}
)

// report asserts that the client suffered at most what harsh allows since m.
func (l *load) report(t testing.TB, what string, m mark) {
	t.Helper()
	l.suffered(t, what, m, harsh)
}

// suffered logs the load's progress since m, and asserts that it is within bounds. It also counts the time since the last write, because a stalled
// load has no later write to end the pause.
func (l *load) suffered(t testing.TB, what string, m mark, at bound) {
	t.Helper()
	at.failed, at.stall = at.failed*int(slower), at.stall*slower
	l.mu.Lock()
	defer l.mu.Unlock()
	failed, longest := l.failed[m.failed:], max(l.longest, time.Since(l.lastOK))
	t.Logf("FIGURE %s: %d writes and %d reads succeeded, %d requests failed, longest time without a write %v", what,
		l.writes-m.writes, l.reads-m.reads, len(failed), longest.Round(10*time.Millisecond))
	for _, f := range failed[:min(len(failed), 10)] {
		t.Log("  failed: ", f)
	}
	if len(failed) > at.failed {
		t.Errorf("%s: %d requests failed, want at most %d", what, len(failed), at.failed)
	}
	if longest > at.stall {
		t.Errorf("%s: no write was acknowledged for %v, want at most %v", what, longest.Round(10*time.Millisecond), at.stall)
	}
	if l.writes == m.writes {
		t.Errorf("%s: not one write was acknowledged", what)
	}
}

// verify asserts that every acknowledged write exists with its content.
func (l *load) verify(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	acked, stale, known := append([]string{}, l.acked...), append([]string{}, l.stale...), l.counter
	l.mu.Unlock()
	if len(stale) > 0 {
		t.Errorf("reads missed what was acknowledged before: %s", strings.Join(stale, "; "))
	}
	list, err := l.api().CoreV1().ConfigMaps(loadSpace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for i := range list.Items {
		have[list.Items[i].Name] = list.Items[i].Data[written] == list.Items[i].Name
		if list.Items[i].Name == counter {
			if n, err := strconv.Atoi(list.Items[i].Data["n"]); err != nil || n < known {
				t.Errorf("counter is %q after %d was acknowledged", list.Items[i].Data["n"], known)
			}
		}
	}
	lost := 0
	for _, name := range acked {
		if !have[name] {
			lost++
		}
	}
	t.Logf("FIGURE acknowledged writes lost: %d of %d", lost, len(acked))
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(acked))
	}
}
