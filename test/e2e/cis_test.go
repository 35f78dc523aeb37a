//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	kubeBench = "github.com/aquasecurity/kube-bench"
	// cisBenchmark is kube-bench's newest benchmark. Its section "policies" is left out: it judges users' workloads, and Kubernetes' built-in roles
	// (cluster-admin) fail it.
	cisBenchmark = "cis-1.10"
)

// benchArchive is an archive of kube-bench and its checks.
type benchArchive []byte

// compileKubeBench compiles kube-bench in the module that pins it, and packs it with the benchmark's checks. Tests call it before they create
// machines.
func compileKubeBench(t *testing.T) benchArchive {
	t.Helper()
	const module = "kubebench"
	dir := t.TempDir()
	testkit.Must(t, testkit.Required(module, filepath.Join(dir, "kube-bench"), kubeBench))
	checks := filepath.Join(inModule(t, module, "list", "-m", "-f", "{{.Dir}}", kubeBench), "cfg") // the build has downloaded it
	return testkit.Value(exec.Command("tar", "-c", "-C", dir, "kube-bench", "-C", checks, "config.yaml", cisBenchmark).Output())(t)
}

// judgedByCIS runs kube-bench on a machine: no check may fail, and it must warn of exactly the checks that testdata/kube-bench.txt accepts for this
// kind of machine. targets are in kube-bench's terms.
func (r *rig) judgedByCIS(t *testing.T, bench benchArchive, machine, kind, targets string) {
	t.Helper()
	const dir = "/var/tmp/kube-bench"
	inv := r.invocation()
	inv.stdin = string(bench)
	if res := naupegos(t, inv, "--state-dir", r.state, "ssh", r.name, machine, "--", "mkdir -p "+dir+" && tar -C "+dir+" -xf -"); res.code != 0 {
		t.Fatal(res)
	}
	if kind == "control-plane" {
		// kube-bench judges running processes only, and reports all checks of a missing one. On a host that is slow enough to lose leases, kubelet
		// restarts the process after a while.
		testkit.Until(t, 3*time.Minute, time.Second, func() error {
			for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
				if out := r.look(machine, "ps -C "+program+" -o pid= || true"); strings.TrimSpace(out) == "" {
					return fmt.Errorf("%s does not run on %s", program, machine)
				}
			}
			return nil
		})
	}
	// If etcd is a unit, kube-bench needs the path of the unit's file.
	out := r.look(machine, "cd "+dir+" && sed -i 's#^\\( *\\)- /etc/etcd/etcd.conf$#&\\n\\1- /etc/systemd/system/etcd.service#' config.yaml && "+
		"./kube-bench run --config-dir . --config ./config.yaml --benchmark "+cisBenchmark+" --targets "+targets+" --json; cd /; rm -rf "+dir)
	var report struct {
		Controls []struct {
			Tests []struct {
				Results []struct {
					Number string `json:"test_number"`
					Text   string `json:"test_desc"`
					Status string `json:"status"`
					Actual string `json:"actual_value"`
					Reason string `json:"reason"`
				} `json:"results"`
			} `json:"tests"`
		}
	}
	testkit.Must(t, json.Unmarshal([]byte(out), &report))
	accepted, passed, warned := acceptedByUs(t, kind), 0, map[string]bool{}
	for _, c := range report.Controls {
		for _, section := range c.Tests {
			for _, check := range section.Results {
				switch check.Status {
				case "PASS":
					passed++
				case "WARN":
					warned[check.Number] = true
					if accepted[check.Number] == "" {
						t.Errorf("%s: kube-bench warns: %s %s (found %q; %s)", machine, check.Number, check.Text, check.Actual, check.Reason)
					}
				default:
					t.Errorf("%s: kube-bench says %s: %s %s (found %q; %s)", machine, check.Status, check.Number, check.Text, check.Actual, check.Reason)
				}
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(accepted)) {
		if !warned[number] {
			t.Errorf("%s: kube-bench does not warn of %s any more: take it out of testdata/kube-bench.txt", machine, number)
		}
	}
	t.Logf("%s: kube-bench %s: %d checks passed, %d warnings are accepted", machine, cisBenchmark, passed, len(warned))
	if passed < 10 {
		t.Errorf("%s: only %d checks passed: did kube-bench see anything?\n%s", machine, passed, out)
	}
}

// acceptedByUs reads the accepted warnings for a kind of machine: lines of number, kinds, reason.
func acceptedByUs(t *testing.T, kind string) map[string]string {
	t.Helper()
	accepted := map[string]string{}
	for line := range strings.Lines(string(testkit.Value(os.ReadFile("testdata/kube-bench.txt"))(t))) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) < 3 {
			t.Fatalf("testdata/kube-bench.txt: %q has no reason", line)
		}
		if slices.Contains(strings.Split(fields[1], ","), kind) {
			accepted[fields[0]] = strings.Join(fields[2:], " ")
		}
	}
	return accepted
}
