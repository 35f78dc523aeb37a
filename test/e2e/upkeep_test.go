//go:build e2e

package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUpkeep updates machines' packages and repairs a sick machine, while a pod on another worker keeps running; never two nodes may be away at
// once.
func TestUpkeep(t *testing.T) {
	testkit.OnlyFull(t, "the agent's integration test with the real apt, and the plans of repair and update in unit tests")
	t.Parallel()
	r := newRig(t, "upkeep")
	r.document(size{controlPlanes: 1, workers: 2, extra: "  repair:\n    after: 15s\n    patience: 75s\n    replace: true\n"})
	r.apply()
	st := r.status()
	cp, workers := machinesOf(st, provider.ControlPlane)[0].Name, machinesOf(st, provider.Worker)
	sick, other := workers[0].Name, workers[1].Name
	r.ssh(cp, "truncate -s 0 /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*") // so that there are no newer packages, on any day
	r.runPod(other, release.Default)
	was := r.pod("on-" + other)
	most := r.mostAway(t)

	for _, w := range []string{sick, other} {
		r.offers(w, "1.0")
		r.ssh(w, "apt-get -q update && apt-get -qy install harbour")
		r.offers(w, "1.1")
	}
	r.updates(t, []string{sick}, "1.1", "--machine", sick)
	r.climbs(t, sick)
	r.comesBack(t, sick)
	if now := r.pod("on-" + other); now != was {
		t.Errorf("a pod on an untouched machine was %s, and is %s", was, now)
	}

	r.offers(sick, "1.1") // the machine has been replaced
	r.ssh(sick, "apt-get -q update && apt-get -qy install harbour")
	for _, w := range []string{sick, other} {
		r.offers(w, "2.0")
	}
	testkit.Must(t, r.api().CoreV1().Pods("default").Delete(t.Context(), "on-"+other, metav1.DeleteOptions{})) // a drain would not recreate it elsewhere
	r.updates(t, []string{sick, other}, "2.0")
	for _, w := range []string{sick, other} {
		r.offers(w, "3.0")
	}
	r.updatesKilled(t, sick, other)
	r.rebootKilled(t, other)
	if n := most(); n != 1 {
		t.Errorf("%d nodes were away at once", n)
	}
	r.destroy()
}

// offers makes a mirror with one version of a package the only mirror of a machine. The package requests a reboot.
func (r *rig) offers(machine, version string) {
	r.t.Helper()
	tree := r.t.TempDir()
	control := fmt.Sprintf("Package: harbour\nVersion: %s\nArchitecture: all\nMaintainer: test <test@example.org>\nDescription: test\n", version)
	for path, text := range map[string]string{"DEBIAN/control": control, "DEBIAN/postinst": "#!/bin/sh\ntest -z \"$2\" || { touch /run/reboot-required; echo harbour >> /run/reboot-required.pkgs; }\n"} {
		testkit.Must(r.t, os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755))
		testkit.Must(r.t, os.WriteFile(filepath.Join(tree, path), []byte(text), 0o755))
	}
	deb := filepath.Join(r.t.TempDir(), "harbour.deb")
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", tree, deb).CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	data := testkit.Value(os.ReadFile(deb))(r.t)
	index := fmt.Sprintf("%sFilename: ./harbour_%s.deb\nSize: %d\nSHA256: %x\n\n", control, version, len(data), sha256.Sum256(data))
	put := func(data []byte, path string) string {
		return fmt.Sprintf("echo %s | base64 -d > %s\n", base64.StdEncoding.EncodeToString(data), path)
	}
	r.ssh(machine, "set -e\nmkdir -p /srv/mirror\nrm -f /etc/apt/sources.list.d/*\n"+put(data, "/srv/mirror/harbour_"+version+".deb")+put([]byte(index), "/srv/mirror/Packages")+
		put([]byte("deb [trusted=yes] file:/srv/mirror ./\n"), "/etc/apt/sources.list"))
}

// updates updates exactly these machines: the plan names the version, and each machine is rebooted and takes pods again.
func (r *rig) updates(t *testing.T, machines []string, version string, flags ...string) {
	t.Helper()
	args := append([]string{"update", r.name}, flags...)
	planned := r.must(2, append(args, "--plan")...).stdout
	if n := strings.Count(planned, "→ "+version); n != len(machines) {
		t.Errorf("%d machines are to get %s:\n%s", n, version, planned)
	}
	boot := map[string]string{}
	for _, m := range machines {
		boot[m] = r.look(m, "cat /proc/sys/kernel/random/boot_id")
	}
	res := r.must(0, append(args, "--yes")...)
	t.Logf("FIGURE update of %d machines with a reboot each: %v", len(machines), res.took.Round(100*time.Millisecond))
	for _, m := range machines {
		if got := strings.TrimSpace(r.look(m, "dpkg-query -W -f '${Version}' harbour")); got != version {
			t.Errorf("%s has %s, want %s", m, got, version)
		}
		if r.look(m, "cat /proc/sys/kernel/random/boot_id") == boot[m] {
			t.Errorf("%s was not rebooted", m)
		}
	}
	r.healthy()
	r.must(0, append(args, "--plan")...)
}

// updatesKilled kills an update at every step boundary: the next one continues it, and in the end both machines are healthy.
func (r *rig) updatesKilled(t *testing.T, machines ...string) {
	t.Helper()
	killed := invocation{bin: built.kill, env: []string{"NAUPEGOS_KILL_ONCE=" + filepath.Join(r.dir, "boundaries")}}
	r.calm.end()
	began, runs := time.Now(), 0
	var res result
	for res = naupegos(t, killed, "--state-dir", r.state, "update", r.name, "--yes"); res.code == -1; res = naupegos(t, killed, "--state-dir", r.state, "update", r.name, "--yes") {
		if runs++; runs > 12*len(machines) {
			t.Fatalf("no update comes to its end after %d: %v", runs, res)
		}
	}
	t.Logf("FIGURE an update that was killed at %d boundaries: %v", runs, time.Since(began).Round(100*time.Millisecond))
	if res.code != 0 || runs < 6*len(machines) {
		t.Errorf("it was killed %d times only, then %v", runs, res)
	}
	for _, m := range machines {
		if got := strings.TrimSpace(r.look(m, "dpkg-query -W -f '${Version}' harbour")); got != "3.0" {
			t.Errorf("%s has %s", m, got)
		}
	}
	r.letsIn(t)
}

// rebootKilled kills a requested reboot while the machine is off: the next run starts the machine, and does not reboot it again.
func (r *rig) rebootKilled(t *testing.T, machine string) {
	t.Helper()
	pid, was := r.initOf(machine), r.look(machine, "cat /proc/sys/kernel/random/boot_id")
	cmd := exec.Command(built.bin, "--state-dir", r.state, "update", r.name, "--reboot-only", "--machine", machine, "--yes")
	cmd.Env = append(os.Environ(), r.site.env()...)
	r.calm.end()
	testkit.Must(t, cmd.Start())
	until(t, 2*time.Minute, 5*time.Millisecond, func() error {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			return fmt.Errorf("%s is not off yet", machine)
		}
		return nil
	})
	testkit.Must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	if res := r.must(0, "update", r.name, "--reboot-only", "--yes"); !strings.Contains(res.stderr, "reboots that were begun continue: "+machine) {
		t.Errorf("the reboot that was begun does not go on: %v", res)
	}
	if now := r.look(machine, "cat /proc/sys/kernel/random/boot_id"); now == was {
		t.Error("it was not rebooted")
	}
	r.letsIn(t)
}

// letsIn asserts that the cluster is healthy and no node is left cordoned.
func (r *rig) letsIn(t *testing.T) {
	t.Helper()
	for _, m := range r.healthy().Machines {
		if strings.Contains(m.Node, "cordoned") {
			t.Errorf("%s is left %s", m.Name, m.Node)
		}
	}
}

// climbs breaks kubelet so that no reboot helps: the machine goes through all rungs of the ladder and is replaced.
func (r *rig) climbs(t *testing.T, sick string) {
	t.Helper()
	r.must(0, "repair", r.name, "--plan")
	r.ssh(sick, "mkdir -p /etc/systemd/system/kubelet.service.d && printf '[Unit]\\nConditionPathExists=/nowhere\\n' > /etc/systemd/system/kubelet.service.d/zz-sick.conf && systemctl daemon-reload && systemctl stop kubelet")
	began := time.Now()
	for _, rung := range []struct {
		name, said string
		code       int
	}{{"reboot", "rebooted at", 5}, {"power-cycle", "power-cycled at", 5}, {"replace", "replaced at", 0}} {
		until(t, 3*time.Minute, 2*time.Second, func() error { // the controller manager must notice, and the delay must pass
			if res := r.call("repair", r.name, "--plan", "-o", "json"); res.code != 2 || !strings.Contains(res.stdout, sick) {
				return fmt.Errorf("nothing is to be repaired yet: %v", res)
			}
			return nil
		})
		boot := r.look(sick, "cat /proc/sys/kernel/random/boot_id")
		res := r.must(rung.code, "repair", r.name, "--yes", "-o", "json")
		if r.look(sick, "cat /proc/sys/kernel/random/boot_id") == boot {
			t.Errorf("%s: the machine was not booted: %v", rung.name, res)
		}
		if tried := strings.Join(r.status().Repairs, "; "); !strings.Contains(tried, rung.said) {
			t.Errorf("%s: status says %q", rung.name, tried)
		}
	}
	t.Logf("FIGURE reboot, power cycle and replacement of a worker: %v", time.Since(began).Round(time.Second))
	r.healthy()
	r.unchanged()
}

// comesBack cuts a machine's power: repair only switches it on again. Earlier attempts must be forgotten by then.
func (r *rig) comesBack(t *testing.T, sick string) {
	t.Helper()
	until(t, 3*time.Minute, 2*time.Second, func() error {
		r.must(0, "repair", r.name, "--yes")
		if tried := r.status().Repairs; len(tried) > 0 {
			return fmt.Errorf("%q is still remembered", tried)
		}
		return nil
	})
	r.site.off(r, sick)
	r.calm.end()
	until(t, 3*time.Minute, 2*time.Second, func() error {
		if res := r.call("repair", r.name, "--plan"); res.code != 2 {
			return fmt.Errorf("nothing is to be repaired yet: %v", res)
		}
		return nil
	})
	var done struct{ Machine, Rung string }
	res := r.must(0, "repair", r.name, "--yes", "-o", "json")
	if err := json.Unmarshal([]byte(res.stdout), &done); err != nil || done.Machine != sick || done.Rung != "reboot" {
		t.Errorf("%+v, %v", done, err)
	}
	t.Logf("FIGURE repair of a machine whose power had failed: %v", res.took.Round(100*time.Millisecond))
	r.healthy()
}

// pod returns the UID, node and number of restarts of a pod.
func (r *rig) pod(name string) string {
	r.t.Helper()
	p := testkit.Value(r.api().CoreV1().Pods("default").Get(r.t.Context(), name, metav1.GetOptions{}))(r.t)
	return fmt.Sprintf("%s on %s, restarted %d times", p.UID, p.Spec.NodeName, p.Status.ContainerStatuses[0].RestartCount)
}

// mostAway watches nodes; the returned function returns the highest number of nodes that were drained or not Ready at once.
func (r *rig) mostAway(t *testing.T) func() int {
	ctx, stop := context.WithCancel(t.Context())
	most := make(chan int, 1)
	api := r.api()
	go func() {
		n := 0
		for ; ctx.Err() == nil; <-time.After(250 * time.Millisecond) {
			list, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if err != nil {
				continue // an unanswered list does not count
			}
			away := 0
			for i := range list.Items {
				ready := false
				for _, c := range list.Items[i].Status.Conditions {
					ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
				}
				if list.Items[i].Spec.Unschedulable || !ready {
					away++
				}
			}
			n = max(n, away)
		}
		most <- n
	}()
	t.Cleanup(stop)
	return func() int { stop(); return <-most }
}
