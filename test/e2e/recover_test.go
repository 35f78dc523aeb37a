//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRecover: two of three control-plane machines lose their disks while clients write. Etcd is recovered from the third one; the recovery is killed
// at a step boundary once. Writes acknowledged up to the revision that it reports exist, later ones do not, and the other machines join again.
func TestRecover(t *testing.T) {
	t.Parallel()
	r := newRig(t, "recover")
	s := size{controlPlanes: 3, gateways: 1}
	if testkit.Full() {
		s.workers = 1
	}
	r.document(s)
	r.apply()
	survivor, lost := r.name+"-cp-1", []string{r.name + "-cp-2", r.name + "-cp-3"}
	args := []string{"etcd", "recover", r.name, "--from", survivor, "--yes"}
	if res := r.must(4, args...); !strings.Contains(res.stderr, "etcd has its quorum: 3 of 3 voters healthy") {
		t.Errorf("the wrong reason: %v", res)
	}

	w := r.write(t)
	w.waitFor(t, 200)
	for _, m := range lost {
		r.kill(m)
		testkit.Must(t, os.RemoveAll(r.machineDir(m)))
	}
	agreed := w.end()

	at := 1 + testkit.Rand(t).IntN(9)
	died := r.killedAt(at, args...)
	if res := r.call("apply", "-f", r.file, "--yes"); res.code != 4 || !strings.Contains(res.stderr, "naupegos etcd recover "+r.name+" --from "+survivor) {
		t.Errorf("apply does not say what goes on: %v", res)
	}
	began := time.Now()
	res := r.must(0, args...)
	said := regexp.MustCompile(`everything up to revision (\d+) is there.* (\d+) entries`).FindStringSubmatch(res.stdout)
	if said == nil {
		t.Fatalf("it does not say which revisions are there: %v", res)
	}
	last, err := strconv.ParseInt(said[1], 10, 64)
	testkit.Must(t, err)
	took := time.Since(began).Round(100 * time.Millisecond)

	list, err := r.api().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "written=by-us"})
	testkit.Must(t, err)
	has := map[string]bool{}
	for _, cm := range list.Items {
		has[cm.Name] = true
	}
	missing := 0
	for name, rev := range agreed {
		if has[name] != (rev <= last) {
			t.Errorf("%s of revision %d is there: %t; all up to %d are said to be", name, rev, has[name], last)
		}
		if !has[name] {
			missing++
		}
	}
	t.Logf("FIGURE recovery of etcd from one of three: killed at boundary %d after %v, then %v; of %d answered writes %d are missing, all after revision %d; %s entries were dropped",
		at, died.took.Round(100*time.Millisecond), took, len(agreed), missing, last, said[2])
	r.healthy()
	r.sameCluster(s)
	r.passesItsTest(t)
	r.destroy()
}

// writer has several clients that write at the same time.
type writer struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	agreed map[string]int64 // revision of acknowledged objects, by name
}

func (r *rig) write(t *testing.T) *writer {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{cancel: cancel, agreed: map[string]int64{}}
	client := r.clientset(5 * time.Second)
	for c := range 4 {
		w.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("written-%d-%d", c, i), Labels: map[string]string{"written": "by-us"}}}
				made, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
				if err != nil {
					continue // not acknowledged: it may exist or not
				}
				rev, err := strconv.ParseInt(made.ResourceVersion, 10, 64)
				if err != nil {
					t.Errorf("%s has revision %q", made.Name, made.ResourceVersion)
					return
				}
				w.mu.Lock()
				w.agreed[made.Name] = rev
				w.mu.Unlock()
			}
		})
	}
	return w
}

// waitFor waits until n writes are acknowledged.
func (w *writer) waitFor(t *testing.T, n int) {
	t.Helper()
	until(t, time.Minute, 100*time.Millisecond, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.agreed) < n {
			return fmt.Errorf("%d writes were answered", len(w.agreed))
		}
		return nil
	})
}

// end stops the writers and returns the acknowledged objects.
func (w *writer) end() map[string]int64 {
	w.cancel()
	w.wg.Wait()
	return w.agreed
}
