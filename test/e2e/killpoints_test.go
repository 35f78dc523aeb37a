//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// killers is how many clusters live side by side in TestKillAtEveryStep: most of a small cluster's time is waiting.
const killers = 3

// TestKillAtEveryStep kills apply with SIGKILL at every step boundary of a small cluster's first apply, each time of a new
// cluster: the next apply must end in the same cluster, and destroy must leave nothing.
func TestKillAtEveryStep(t *testing.T) {
	var next, last atomic.Int64
	first, limit := envInt(t, "NAUPEGOS_E2E_KILL_FIRST", 1), envInt(t, "NAUPEGOS_E2E_KILL_LAST", 1000)
	next.Store(int64(first - 1))
	began := time.Now()
	var wg sync.WaitGroup
	for range killers {
		wg.Go(func() {
			for last.Load() == 0 && !t.Failed() {
				n := int(next.Add(1))
				if n > limit {
					return
				}
				t.Run(fmt.Sprintf("boundary-%d", n), func(t *testing.T) {
					if !killOnce(t, fmt.Sprintf("kill%d", n), n, size{controlPlanes: 1, workers: 1, extra: "  smokeTest: false\n"}) {
						last.Store(int64(n))
					}
				})
			}
		})
	}
	wg.Wait()
	if last.Load() == 0 && limit == 1000 && !t.Failed() {
		t.Error("no apply came to its end unkilled")
	}
	t.Logf("boundaries %d to %d in %v, %d clusters at a time", first, next.Load(), time.Since(began).Round(time.Second), killers)
}

// TestKillAtRandomSteps does the same with a highly available cluster at a few boundaries. NAUPEGOS_E2E_SEED repeats a run.
func TestKillAtRandomSteps(t *testing.T) {
	seed := uint64(envInt(t, "NAUPEGOS_E2E_SEED", int(time.Now().Unix())))
	t.Logf("seed: NAUPEGOS_E2E_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := size{controlPlanes: 3, workers: 2, gateways: 2, extra: "  smokeTest: false\n"}
	boundaries := planned(t, s) * 2 // a kill beyond the last one would prove nothing
	for i := range envInt(t, "NAUPEGOS_E2E_SAMPLES", 2) {
		n := 1 + rnd.IntN(boundaries)
		t.Run(fmt.Sprintf("boundary-%d-of-%d", n, boundaries), func(t *testing.T) {
			if !killOnce(t, fmt.Sprintf("killha%d", i+1), n, s) {
				t.Errorf("apply ended before boundary %d: the sample proves nothing", n)
			}
		})
	}
}

// planned counts the steps of a new cluster's plan.
func planned(t *testing.T, s size) int {
	r := newRig(t, "killha0")
	r.document(s)
	res := r.must(2, "plan", "-f", r.file, "-o", "json")
	var p struct{ Steps []json.RawMessage }
	if err := json.Unmarshal([]byte(res.stdout), &p); err != nil || len(p.Steps) == 0 {
		t.Fatalf("no steps: %v: %v", err, res)
	}
	return len(p.Steps)
}

// killOnce kills the first apply at boundary n, lets the next one finish, examines the cluster and destroys it. It reports
// whether there was a boundary n.
func killOnce(t *testing.T, name string, n int, s size) (killed bool) {
	r := newRig(t, name)
	r.document(s)
	inv := invocation{bin: built.kill, env: []string{"NAUPEGOS_KILL_AT=" + itoa(n)}}
	res := naupegos(t, inv, "--state-dir", r.state, "apply", "-f", r.file, "--yes")
	where := ""
	for line := range strings.Lines(res.stderr) {
		if strings.HasPrefix(line, "killpoint ") {
			where = strings.TrimSpace(line)
		}
	}
	switch {
	case res.code == -1 && where != "":
		killed = true
	case res.code != 0 || where != "":
		t.Fatalf("want a death by SIGKILL, or success: %v", res)
	}
	t.Logf("%s after %v", where, res.took.Round(100*time.Millisecond))
	if killed {
		r.apply()
	}
	r.sameCluster(s)
	r.destroy()
	if left := stateFiles(t, r.state); strings.Contains(left, "ssh") {
		t.Errorf("the state directory still has %s", left)
	}
	return killed
}

// sameCluster asserts that the cluster is as the document says, whatever happened on the way: the same machines and no
// other, every node Ready, every control-plane machine a healthy voter and no other, and nothing left to do.
func (r *rig) sameCluster(s size) {
	r.t.Helper()
	want := map[string]string{}
	for i := range s.controlPlanes {
		want[fmt.Sprintf("%s-cp-%d", r.name, i+1)] = "control-plane"
	}
	for i := range s.workers {
		want[fmt.Sprintf("%s-general-%d", r.name, i+1)] = "worker"
	}
	for i := range s.gateways {
		want[fmt.Sprintf("%s-gw-%d", r.name, i+1)] = "gateway"
	}
	for _, m := range r.healthy().Machines {
		switch {
		case want[m.Name] != m.Role:
			r.t.Errorf("unexpected machine %+v", m)
		case m.Role != "gateway" && m.Node != "Ready":
			r.t.Errorf("node is not ready: %+v", m)
		}
	}
	until(r.t, settle, time.Second, func() error { // of a cloud, a server's machine goes after the server
		records, err := filepath.Glob(r.machineDir("*"))
		if err == nil && len(records) != len(want) {
			err = fmt.Errorf("want %d machines on this host: %v", len(want), records)
		}
		return err
	})
	r.unchanged()
}

// clusterID is the ID that the store gave the cluster.
func (r *rig) clusterID() string {
	r.t.Helper()
	if r.record() == nil {
		r.t.Fatalf("the store knows no cluster %s", r.name)
	}
	return r.id
}

// envInt reads a number from the environment.
func envInt(t testing.TB, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
