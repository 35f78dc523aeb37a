//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// killedSize is the small cluster of TestKillAtEveryStep.
var killedSize = size{controlPlanes: 1, workers: 1, extra: "  smokeTest: false\n"}

// TestKillAtEveryStep kills applies of small clusters with SIGKILL at step boundaries: the next apply must end in the same cluster, and destroy, which
// is killed as well, must leave nothing behind. The first apply of a new cluster is killed at one of two boundaries, with -full at every one; with -full, the
// applies of one cluster are also killed at each boundary in turn.
func TestKillAtEveryStep(t *testing.T) {
	t.Parallel()
	t.Run("each in turn", func(t *testing.T) {
		testkit.OnlyFull(t, "two applies die at boundaries that chance chooses")
		t.Parallel()
		killInTurn(t, "killeach", killedSize)
	})
	all := boundaries(t, "kill0", killedSize)
	for _, n := range testkit.Sample(t, 2, all) {
		t.Run(fmt.Sprintf("boundary-%d-of-%d", n, len(all)), func(t *testing.T) {
			t.Parallel()
			killOnce(t, fmt.Sprintf("kill%d", n), n, killedSize)
		})
	}
}

// TestKillAtRandomSteps kills an apply of a highly available cluster at one boundary; with -full at eight, and at each in turn.
func TestKillAtRandomSteps(t *testing.T) {
	t.Parallel()
	s := size{controlPlanes: 3, workers: 2, gateways: 2, extra: killedSize.extra}
	samples := 1
	if testkit.Full() {
		samples = 8
		t.Run("each in turn", func(t *testing.T) { killInTurn(t, "killhaeach", s) })
	}
	all := boundaries(t, "killha0", s)
	for _, i := range testkit.Rand(t).Perm(len(all))[:samples] {
		t.Run(fmt.Sprintf("boundary-%d-of-%d", all[i], len(all)), func(t *testing.T) {
			t.Parallel()
			killOnce(t, fmt.Sprintf("killha%d", all[i]), all[i], s)
		})
	}
}

// plannedStep is a step in the output of plan.
type plannedStep struct{ ID, Action string }

// planned returns the steps of a new cluster's plan.
func (r *rig) planned() []plannedStep {
	r.t.Helper()
	res := r.must(2, "plan", "-f", r.file, "-o", "json")
	var p struct{ Steps []plannedStep }
	if err := json.Unmarshal([]byte(res.stdout), &p); err != nil || len(p.Steps) == 0 || p.Steps[0].ID == "" {
		r.t.Fatalf("no steps: %v: %v", err, res)
	}
	return p.Steps
}

// boundaries numbers the boundaries before and after each step of a new cluster's plan.
func boundaries(t *testing.T, name string, s size) (all []int) {
	r := newRig(t, name)
	r.document(s)
	for range r.planned() {
		all = append(all, len(all)+1, len(all)+2)
	}
	return all
}

// killInTurn kills an apply once at every boundary: each run gets one boundary further than the previous, until one finishes.
func killInTurn(t *testing.T, name string, s size) {
	r := newRig(t, name)
	r.document(s)
	steps := r.planned()
	passed := filepath.Join(r.dir, "boundaries")
	began, runs := time.Now(), 0
	for r.applyKilled("NAUPEGOS_KILL_ONCE="+passed) != "" {
		if runs++; runs > 3*len(steps) { // two boundaries a step, and the steps that repair interrupted ones
			t.Fatalf("no apply comes to its end after %d", runs)
		}
	}
	t.Logf("FIGURE %d applies of one cluster were killed at the boundaries of %d steps in %v", runs, len(steps), time.Since(began).Round(time.Second))
	text, err := os.ReadFile(passed)
	if err != nil {
		t.Fatal(err)
	}
	seen := strings.Split(string(text), "\n")
	for _, step := range steps { // later plans omit a step that was done before its end, or does not need to wait any more
		if !slices.Contains(seen, string(plan.BeforeStep)+" "+step.ID) && step.Action != string(plan.Wait) {
			t.Errorf("no apply was killed before %s", step.ID)
		}
	}
	r.survived(s)
}

// killOnce kills the first apply at boundary n, and lets the next one finish.
func killOnce(t *testing.T, name string, n int, s size) {
	r := newRig(t, name)
	r.document(s)
	r.killedAt(n, "apply", "-f", r.file, "--yes")
	r.apply()
	r.survived(s)
}

// killed runs a command that is killed at the boundary in env. It returns the boundary, empty if the command ended by itself, and the result. Any
// goroutine may call it.
func (r *rig) killed(env string, args ...string) (where string, res result) {
	r.t.Helper()
	if args[0] == "destroy" {
		r.stillDone()
	}
	r.calm.end()
	inv := r.invocation()
	inv.bin, inv.env = built.kill, append(inv.env, env)
	res = naupegos(r.t, inv, append([]string{"--state-dir", r.state}, args...)...)
	for line := range strings.Lines(res.stderr) {
		if strings.HasPrefix(line, "killpoint ") {
			where = strings.TrimSpace(line)
		}
	}
	if died := where != ""; died != (res.code == -1) {
		r.t.Errorf("want a death by SIGKILL at a boundary, or none: %v", res)
	}
	r.t.Logf("%s %s after %v", args[0], where, res.took.Round(100*time.Millisecond))
	return where, res
}

// killedAt kills a command at the n-th boundary. The command must not end before.
func (r *rig) killedAt(n int, args ...string) result {
	r.t.Helper()
	where, res := r.killed("NAUPEGOS_KILL_AT="+itoa(n), args...)
	if where == "" {
		r.t.Errorf("%s ended before boundary %d: the sample proves nothing: %v", args[0], n, res)
	}
	return res
}

// applyKilled runs an apply that is killed at the boundary in env, and returns the boundary; empty if the apply ended by itself.
func (r *rig) applyKilled(env string) (where string) {
	r.t.Helper()
	where, res := r.killed(env, "apply", "-f", r.file, "--yes")
	if where == "" && res.code != 0 {
		r.t.Fatalf("want a death by SIGKILL, or success: %v", res)
	}
	return where
}

// survived checks a cluster after all applies, and destroys it.
func (r *rig) survived(s size) {
	r.t.Helper()
	r.sameCluster(s)
	r.destroyDies()
	if left := stateFiles(r.t, r.state); strings.Contains(left, "ssh") {
		r.t.Errorf("the state directory still has %s", left)
	}
}

// destroyDies kills a destroy at a random boundary, with -full at every one, and lets the next one finish: nothing is left on the host and in the
// store.
func (r *rig) destroyDies() {
	r.t.Helper()
	r.site.host(r) // it can't be found out afterwards
	args := []string{"destroy", r.name, "--yes"}
	if steps := r.size.controlPlanes + r.size.workers + r.size.gateways + 3; !testkit.Full() { // those three: the network, the rest, the store
		r.killedAt(1+testkit.Rand(r.t).IntN(2*steps), args...)
	} else {
		died, once := 0, "NAUPEGOS_KILL_ONCE="+filepath.Join(r.dir, "destroy-boundaries")
		for r.record() != nil && r.diesAgain(&died, 2*steps, once, args...) {
		}
		if died < 2*3+1 { // machines are removed at the same time, so that not every boundary is met
			r.t.Errorf("destroy was killed %d times only", died)
		}
		r.t.Logf("FIGURE a destroy of %d steps was killed at %d boundaries", steps, died)
	}
	if r.record() != nil {
		r.destroy()
	} else { // killed after the last step, the cluster is forgotten
		r.gone()
	}
	if res := r.must(0, "status"); !strings.Contains(res.stdout, "No clusters") {
		r.t.Errorf("it is still known: %v", res)
	}
}

// diesAgain runs a command that may be killed once more, and reports whether it was; died counts. It must finish after at most most kills. Any
// goroutine may call it.
func (r *rig) diesAgain(died *int, most int, env string, args ...string) bool {
	r.t.Helper()
	where, res := r.killed(env, args...)
	if where != "" {
		*died++
	}
	switch {
	case where == "" && res.code != 0:
		r.t.Errorf("after %d deaths: %v", *died, res)
	case *died > most:
		r.t.Errorf("no %s comes to its end after %d", args[0], *died)
		return false
	}
	return where != ""
}

// sameCluster asserts that the cluster conforms to the document: exactly its machines, every node Ready, exactly the control-plane machines healthy
// voters, and nothing left to do.
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
	until(r.t, time.Minute, time.Second, func() error { // in a cloud, a server's machine goes after the server
		records, err := filepath.Glob(r.machineDir("*"))
		if err == nil && len(records) != len(want) {
			err = fmt.Errorf("want %d machines on this host: %v", len(want), records)
		}
		return err
	})
	r.unchanged()
}

// clusterID returns the cluster's ID in the store.
func (r *rig) clusterID() string {
	r.t.Helper()
	if r.record() == nil {
		r.t.Fatalf("the store knows no cluster %s", r.name)
	}
	return r.id
}
