//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func itoa(n int) string { return strconv.Itoa(n) }

// rig is one cluster with its own state directory. It is destroyed when the test ends, also after a failure.
type rig struct {
	t     testing.TB // the running part of the test
	whole testing.TB // the test
	site  site
	name  string
	dir   string // the test's own directory, on a real disk
	state string // --state-dir
	file  string // the document
	inv   invocation
	id    string // of the cluster; empty until known
	size  size   // according to the document
	was   snapshot
	calm  calm
}

// newRig prepares a cluster of local machines of this name, without creating it. Names are unique among the tests.
func newRig(t testing.TB, name string) *rig {
	t.Helper()
	return newRigOn(t, onHost{}, name)
}

// newRigOn prepares a cluster on a site.
func newRigOn(t testing.TB, where site, name string) *rig {
	t.Helper()
	dir := filepath.Join(built.dir, name)
	r := &rig{t: t, whole: t, site: where, name: name, dir: dir, state: filepath.Join(dir, "state"), file: filepath.Join(dir, "cluster.yaml")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.was = takeSnapshot(t)
	t.Cleanup(r.destroyQuietly)
	t.Cleanup(func() { // on its own, because a part of the evidence that fails ends the function
		r.calm.end()
		if t.Failed() {
			r.evidence()
		}
	})
	return r
}

// size is the size of a cluster in the document, with further settings.
type size struct {
	controlPlanes, workers, gateways int
	kubernetes                       string // release; empty: the default
	pool                             string // more lines for the pool of workers, indented by six spaces
	extra                            string // more lines for spec, indented by two spaces
}

// document writes the rig's document. A cluster without gateways has the site's endpoint.
func (r *rig) document(s size) {
	r.t.Helper()
	r.calm.end() // a pending check of the previous document would fail
	r.size = s
	var b strings.Builder
	endpoint, controlPlane := fmt.Sprintf("    gateways:\n      replicas: %d\n", s.gateways), ""
	if s.gateways == 0 {
		endpoint, controlPlane = r.site.endpoint()
	}
	fmt.Fprintf(&b, "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: %s\nspec:\n  provider:\n%s", r.name, r.site.provider())
	if s.kubernetes != "" {
		fmt.Fprintf(&b, "  kubernetes:\n    version: %s\n", s.kubernetes)
	}
	fmt.Fprintf(&b, "  endpoint:\n%s  controlPlane:\n    replicas: %d\n%s", endpoint, s.controlPlanes, controlPlane)
	if s.workers == 0 {
		b.WriteString("    schedulable: true\n")
	} else {
		fmt.Fprintf(&b, "  workers:\n    - name: general\n      replicas: %d\n%s", s.workers, s.pool)
	}
	b.WriteString(s.extra)
	if err := os.WriteFile(r.file, []byte(b.String()), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// run runs naupegos with the rig's state. After a command that changes the cluster and ends with 0, plan must find nothing to do, at once and a
// minute later.
func (r *rig) run(args ...string) result {
	r.t.Helper()
	if !changes(args) {
		return r.call(args...)
	}
	if args[0] == "destroy" {
		r.stillDone()
	}
	r.calm.end()
	res := r.call(args...)
	if res.code == 0 && finishes(args) {
		r.finished(res)
	}
	return res
}

// call runs naupegos with the rig's state, without any check.
func (r *rig) call(args ...string) result {
	r.t.Helper()
	return naupegos(r.t, r.invocation(), append([]string{"--state-dir", r.state}, args...)...)
}

// invocation returns the way in which naupegos is run for this cluster.
func (r *rig) invocation() invocation {
	inv := r.inv
	inv.env = append(r.site.env(), inv.env...)
	return inv
}

// must runs naupegos and fails the test if the exit status is not code.
func (r *rig) must(code int, args ...string) result {
	r.t.Helper()
	res := r.run(args...)
	if res.code != code {
		r.t.Fatalf("want exit status %d: %v", code, res)
	}
	return res
}

// apply applies the document, which must succeed.
func (r *rig) apply() result {
	r.t.Helper()
	res := r.must(0, "apply", "-f", r.file, "--yes")
	r.t.Logf("%s: apply took %v", r.name, res.took.Round(100*time.Millisecond))
	return res
}

// unchanged asserts that plan finds nothing to do, now and a minute later.
func (r *rig) unchanged() {
	r.t.Helper()
	if p := r.plans(r.invocation()); p.code != 0 {
		r.t.Fatalf("there should be nothing to do: %v", p)
	}
	r.lasts()
}

// ssh runs a shell command on a machine through naupegos ssh; it must succeed.
func (r *rig) ssh(machine, command string) string {
	r.t.Helper()
	r.calm.end() // the command may change anything
	return r.look(machine, command)
}

// look is ssh for commands without side effects.
func (r *rig) look(machine, command string) string {
	r.t.Helper()
	return r.remote(0, machine, command).stdout
}

func (r *rig) remote(code int, machine, command string) result {
	r.t.Helper()
	return r.must(code, "ssh", r.name, machine, "--", command)
}

// passesItsTest runs naupegos test, asserts that all checks pass, and returns the details by name.
func (r *rig) passesItsTest(t *testing.T) map[string]string {
	t.Helper()
	var report struct{ Items []addons.Proof }
	testkit.Must(t, json.Unmarshal([]byte(r.must(0, "test", r.name, "-o", "json").stdout), &report))
	details := map[string]string{}
	for _, p := range report.Items {
		t.Logf("%s in %.1fs: %s %s", p.Title, p.Seconds, p.Detail, p.Failure)
		if details[p.Name] = p.Detail; !p.Passed {
			t.Errorf("its test fails: %+v", p)
		}
	}
	if len(details) < 3 {
		t.Errorf("only %v was tried", details)
	}
	return details
}

// status returns the output of naupegos status.
func (r *rig) status() report.Status {
	r.t.Helper()
	var s report.Status
	res := r.run("status", r.name, "-o", "json")
	if res.code != 0 && res.code != 5 && res.code != 10 { // 5 and 10: the cluster is not healthy or drifted, as the answer says
		r.t.Fatal(res)
	}
	if err := json.Unmarshal([]byte(res.stdout), &s); err != nil {
		r.t.Fatalf("%v: %v", err, res)
	}
	return s
}

// settle is the time limit for a healthy status after an apply that ended with 0. Apply has waited for health, so this allows only for single
// requests that a busy host delays.
const settle = 15 * time.Second

// healthy asserts that status shows all machines of the document, all healthy, with each control-plane machine a voter of etcd. It returns the
// status.
func (r *rig) healthy() report.Status {
	r.t.Helper()
	var s report.Status
	began := time.Now()
	until(r.t, settle*slower, time.Second, func() error {
		s = r.status()
		return r.size.check(s)
	})
	if took := time.Since(began); took > 5*time.Second {
		r.t.Logf("all was well only %v after the command had ended", took.Round(time.Second))
	}
	return s
}

// check compares a status with the wanted size.
func (s size) check(st report.Status) error {
	if !st.Healthy {
		return fmt.Errorf("not healthy: %+v", st)
	}
	for role, want := range map[provider.Role]int{provider.ControlPlane: s.controlPlanes, provider.Worker: s.workers, provider.Gateway: s.gateways} {
		if ms := machinesOf(st, role); len(ms) != want {
			return fmt.Errorf("want %d machines with role %s: %+v", want, role, ms)
		}
	}
	for _, m := range machinesOf(st, provider.ControlPlane) {
		if m.Etcd != "voter" && m.Etcd != "leader" {
			return fmt.Errorf("%s is %s in etcd, want a voter: %s", m.Name, m.Etcd, st.Etcd)
		}
	}
	if want := fmt.Sprintf("%d of %d", s.controlPlanes, s.controlPlanes); !strings.HasPrefix(st.Etcd, want) {
		return fmt.Errorf("etcd: want %s voters, have %s", want, st.Etcd)
	}
	return nil
}

// machinesOf lists the machines of a role in a status.
func machinesOf(st report.Status, role provider.Role) []report.MachineStatus {
	var out []report.MachineStatus
	for _, m := range st.Machines {
		if m.Role == string(role) {
			out = append(out, m)
		}
	}
	return out
}

// record reads the cluster from the store, and keeps its ID. It returns nil if the store does not have the cluster.
func (r *rig) record() *store.Cluster {
	if _, err := os.Stat(r.state); err != nil {
		return nil
	}
	st, err := store.Open(context.Background(), store.Location{Dir: r.state})
	if err != nil {
		r.t.Error(err)
		return nil
	}
	defer st.Close()
	c, err := st.Cluster(context.Background(), r.name)
	if err != nil {
		if fail.KindOf(err) != fail.NotFound {
			r.t.Error(err)
		}
		return nil
	}
	r.id = c.ID
	return c
}

// kill cuts a machine's power, and returns when: the network goes first, so that dying programs can't close their connections.
func (r *rig) kill(machine string) time.Time {
	r.t.Helper()
	r.calm.end()
	text, err := os.ReadFile(filepath.Join(r.machineDir(machine), "machine.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var record struct{ Link string }
	if err := json.Unmarshal(text, &record); err != nil || record.Link == "" {
		r.t.Fatalf("%s has no link: %v: %s", machine, err, text)
	}
	began := time.Now()
	// The bridge drops the machine's traffic. The link stays up, because a runner would repair one that is down.
	if out, err := exec.Command("bridge", "link", "set", "dev", record.Link, "state", "0").CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	r.site.off(r, machine)
	return began
}

// kubeconfig returns the administrator's kubeconfig.
func (r *rig) kubeconfig() []byte {
	r.t.Helper()
	return []byte(r.must(0, "kubeconfig", r.name).stdout)
}

// destroy destroys the cluster and asserts that nothing of it is left.
func (r *rig) destroy() {
	r.t.Helper()
	r.site.host(r) // it can't be found out afterwards
	if r.t.Failed() {
		r.evidence()
	}
	res := r.must(0, "destroy", r.name, "--yes")
	r.t.Logf("%s: destroy took %v", r.name, res.took.Round(100*time.Millisecond))
	r.gone()
}

// gone asserts that nothing of the cluster is left.
func (r *rig) gone() {
	r.t.Helper()
	r.site.gone(r)
}

// destroyQuietly removes a failed test's cluster, without checks.
func (r *rig) destroyQuietly() {
	if r.record() == nil {
		return
	}
	if res := naupegos(r.t, invocation{env: r.site.env()}, "--state-dir", r.state, "destroy", r.name, "--yes"); res.code != 0 {
		r.t.Errorf("clean up: %v", res)
	}
}

// initOf returns the PID, on the host, of a machine's first process.
func (r *rig) initOf(machine string) string {
	r.t.Helper()
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		r.t.Fatal(err)
	}
	want := "/naupegos/" + r.site.host(r) + "/" + machine + "/"
	for _, g := range groups {
		text, err := os.ReadFile(g)
		if err != nil || !strings.Contains(string(text), want) {
			continue
		}
		pid := filepath.Base(filepath.Dir(g))
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			// The last number is the PID in the process's own namespace.
			if f := strings.Fields(line); len(f) == 3 && f[0] == "NSpid:" && f[2] == "1" {
				return pid
			}
		}
	}
	r.t.Fatalf("machine %s does not run", machine)
	return ""
}
