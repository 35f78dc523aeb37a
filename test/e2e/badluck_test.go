//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// nobody is the user and group ID of nobody.
const nobody = 65534

// saysClearly asserts that a command failed with one clear error that contains each of these words.
func saysClearly(t testing.TB, res result, code int, words ...string) {
	t.Helper()
	if res.code != code {
		t.Errorf("want exit status %d: %v", code, res)
	}
	for _, w := range words {
		if !strings.Contains(res.stderr, w) {
			t.Errorf("the error does not say %q: %v", w, res)
		}
	}
	if n := strings.Count(res.stderr, "naupegos: "); n != 1 {
		t.Errorf("want one error, have %d: %v", n, res)
	}
	if strings.Contains(res.stderr, "goroutine ") || strings.Contains(res.stderr, "panic") {
		t.Errorf("it panicked: %v", res)
	}
	t.Logf("exit status %d: %s", res.code, lastLines(res.stderr, 6))
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestBadLuckBefore has failures before anything is created: nothing may be left behind.
func TestBadLuckBefore(t *testing.T) {
	t.Run("no root", func(t *testing.T) {
		r := newRig(t, "noroot")
		r.document(size{controlPlanes: 1, workers: 1})
		r.inv = invocation{
			wrap: []string{"setpriv", fmt.Sprintf("--reuid=%d", nobody), fmt.Sprintf("--regid=%d", nobody), "--clear-groups"},
			env:  []string{"HOME=" + r.dir, "XDG_CACHE_HOME=" + libraryCopy(t, r.dir)},
		}
		open(t, r.dir)
		res := r.run("apply", "-f", r.file, "--yes")
		saysClearly(t, res, 4, "root")
		r.gone()
	})
	t.Run("flipped byte in the bundle", func(t *testing.T) {
		r := newRig(t, "flipped")
		cache := libraryCopy(t, r.dir)
		id, name := flip(t, filepath.Join(cache, "naupegos", "bundles"))
		r.inv.env = []string{"XDG_CACHE_HOME=" + cache}
		saysClearly(t, r.run("bundle", "verify", id), 3, name, "digest")
	})
	t.Run("full disk for the store", func(t *testing.T) {
		r := newRig(t, "fullstore")
		r.document(size{controlPlanes: 1, workers: 1})
		r.inv.wrap = inMounts("mkdir -p " + r.state + " && mount -t tmpfs -o size=64k tmpfs " + r.state + " && { dd if=/dev/zero of=" + r.state + "/fill bs=1k 2>/dev/null; true; }") // until it is full
		res := r.run("apply", "-f", r.file, "--yes")
		saysClearly(t, res, 4, r.state, "full")
		r.gone()
	})
	t.Run("full disk for machines", func(t *testing.T) {
		r := newRig(t, "fulldisk")
		r.document(size{controlPlanes: 1, workers: 1})
		r.inv.wrap = inMounts("mkdir -p " + machineRoot + " && mount -t tmpfs -o size=4m tmpfs " + machineRoot)
		res := r.run("apply", "-f", r.file, "--yes")
		saysClearly(t, res, 4, machineRoot)
		r.gone()
	})
}

// inMounts returns a command line to put before naupegos' own. It runs naupegos in a mount namespace that a shell command prepares.
func inMounts(prepare string) []string {
	return []string{"unshare", "-m", "--propagation", "private", "sh", "-c", "(" + prepare + `) && exec "$@"`, "sh"}
}

// open gives the user nobody access to the test's directory.
func open(t testing.TB, dir string) {
	t.Helper()
	if err := os.Chmod(built.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err // files may be links to the real library's, whose owner must not change
		}
		return os.Chown(path, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// libraryCopy makes a cache directory with a copy of the bundle library; its files are hard links to the real ones.
func libraryCopy(t testing.TB, dir string) string {
	t.Helper()
	root, err := bundle.DefaultRoot()
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "cache")
	if err := os.MkdirAll(filepath.Join(cache, "naupegos", "bundles"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"blobs", "manifests"} {
		to := filepath.Join(cache, "naupegos", "bundles")
		if out, err := exec.Command("cp", "-al", filepath.Join(root, part), to).CombinedOutput(); err != nil {
			t.Logf("links can't be made: %s", out)
			if out, err := exec.Command("cp", "-a", filepath.Join(root, part), to).CombinedOutput(); err != nil {
				t.Fatalf("copy the library: %v: %s", err, out)
			}
		}
	}
	return cache
}

// flip changes one byte of a blob, in a copy of its file, and returns the bundle's ID and the name of the artifact.
func flip(t testing.TB, root string) (id, name string) {
	t.Helper()
	lib, err := bundle.OpenLibrary(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := lib.List(t.Context())
	if err != nil || len(all) == 0 {
		t.Fatalf("no bundle: %v", err)
	}
	a, err := all[0].Binary("kubelet")
	if err != nil {
		t.Fatal(err)
	}
	path := all[0].Path(a.Digest)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.Remove(path); err != nil { // removes the link, not the real library's file
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return all[0].ID, a.Name
}

// TestBadLuckAfter has failures of an existing cluster: each gives one clear error, and the same command succeeds once the cause is gone.
func TestBadLuckAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t, "luck")
	s := size{controlPlanes: 1, workers: 1, extra: "  smokeTest: false\n"}
	hasty := s // fails soon; commands that must succeed get the usual timeouts
	hasty.extra += "  timeouts:\n    machineBoot: 10s\n    nodeReady: 15s\n    drain: 10s\n    step: 40s\n"
	r.document(s)
	r.apply()
	const w = "luck-general-1"
	upper := filepath.Join(r.machineDir(w), "upper")

	part := func(name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			outer := r.t
			r.t = t
			defer func() { r.t = outer }()
			r.document(hasty)
			do(t)
			r.document(s)
			r.apply()
			r.sameCluster(s)
		})
	}
	part("a machine that never boots", func(t *testing.T) {
		r.kill(w)
		sshd := filepath.Join(upper, "usr/sbin/sshd")
		if err := os.MkdirAll(filepath.Dir(sshd), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(sshd, []byte("#!/bin/false\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		res := r.run("apply", "-f", r.file, "--yes")
		saysClearly(t, res, 5, w, "no SSH server answered", "within 10s", "its console ends")
		if res.took > 90*time.Second*slower {
			t.Errorf("one boot's time should end it; it took %v", res.took)
		}
		r.kill(w)
		if err := os.Remove(sshd); err != nil {
			t.Fatal(err)
		}
	})
	part("a kubelet that never gets ready", func(t *testing.T) {
		const dropIn = "/etc/systemd/system/kubelet.service.d/99-e2e.conf"
		r.ssh(w, "printf '[Service]\\nExecStart=\\nExecStart=/usr/local/bin/kubelet --config=/nowhere/e2e.yaml\\n' > "+dropIn+"; systemctl daemon-reload; systemctl restart kubelet || true")
		// The API still considers the node ready, but apply notices.
		saysClearly(t, r.run("apply", "-f", r.file, "--yes"), 5, w, "kubelet.service is", "failed to load kubelet config file", "/nowhere/e2e.yaml", "naupegos ssh luck "+w)
		r.ssh(w, "rm "+dropIn+"; systemctl daemon-reload; systemctl reset-failed kubelet; systemctl restart kubelet")
	})
	part("a node that tells itself why it is not ready", func(t *testing.T) {
		const dropIn = "/etc/systemd/system/containerd.service.d/99-e2e.conf"
		r.ssh(w, "mkdir -p $(dirname "+dropIn+"); printf '[Unit]\\nStartLimitIntervalSec=0\\n[Service]\\nExecStart=\\nExecStart=/usr/local/bin/containerd --config /nowhere/e2e.toml\\n' > "+dropIn+
			"; systemctl daemon-reload; systemctl restart containerd || true")
		r.notReady(w, "KubeletNotReady")
		saysClearly(t, r.run("apply", "-f", r.file, "--yes"), 5, w, "KubeletNotReady", "containerd.service is", "/nowhere/e2e.toml")
		r.ssh(w, "rm "+dropIn+"; systemctl daemon-reload; systemctl reset-failed containerd; systemctl restart containerd")
	})
	part("kube-proxy restarts", func(t *testing.T) {
		r.must(0, "kubectl", r.name, "--", "-n", "kube-system", "rollout", "restart", "daemonset/kube-proxy")
		r.must(0, "kubectl", r.name, "--", "-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout=2m")
		r.passesItsTest(t) // Services from before still work, such as cluster DNS
	})
	part("kubelets' certificates", func(t *testing.T) { r.kubeletCertificates(t, "luck-cp-1", w) })
	r.destroy()
}

// kubeletCertificates gives a kubelet a certificate like its first one, so old that the kubelet renews it at once with a new key. Then it gives all
// kubelets an expired one, as if their machines had been off for too long: kubelets can't recover from that, and without the control plane's
// kubelet there is no API. The next apply repairs it.
func (r *rig) kubeletCertificates(t *testing.T, cp, w string) {
	t.Helper()
	authority := &pkitest.MemorySecrets{}
	testkit.Must(t, authority.Put(t.Context(), "authority/"+pki.KubernetesCA, []byte(r.look(cp, "cat /etc/kubernetes/pki/ca.crt /etc/kubernetes/pki/ca.key"))))
	const dir, current = "/var/lib/kubelet/pki/", "/var/lib/kubelet/pki/kubelet-client-current.pem"
	give := func(machine string, age, validity time.Duration) {
		pair := testkit.Value(pki.Open(authority, pki.Options{}).Issue(t.Context(), pki.LeafSpec{
			Authority: pki.KubernetesCA, CommonName: "system:node:" + machine, Organizations: []string{"system:nodes"}, Client: true, Age: age,
		}, validity))(t)
		inv := r.invocation()
		inv.stdin = string(pair.CertPEM) + string(pair.KeyPEM)
		if res := naupegos(t, inv, "--state-dir", r.state, "ssh", r.name, machine, "--", "umask 077; cat > "+dir+"e2e.pem && ln -sf "+dir+"e2e.pem "+current); res.code != 0 {
			t.Fatal(res)
		}
		r.ssh(machine, "systemctl restart kubelet || true")
	}
	give(w, 10*time.Hour, 10*time.Minute)
	renewed := ""
	took := testkit.Until(t, time.Minute, 250*time.Millisecond, func() error {
		if renewed = strings.TrimSpace(r.look(w, "readlink "+current)); renewed == dir+"e2e.pem" {
			return errors.New("the kubelet has not renewed its certificate")
		}
		return nil
	})
	t.Logf("the kubelet of %s has renewed its certificate after %v: %s", w, took.Round(100*time.Millisecond), renewed)

	give(w, 2*time.Hour, -time.Hour)
	give(cp, 2*time.Hour, -time.Hour)
	if plan := r.must(2, "plan", "-f", r.file).stdout; !strings.Contains(plan, "the certificate at "+current+" expired at ") {
		t.Errorf("a kubelet's certificate has expired, and the plan says\n%s", plan)
	}
	r.kill(cp)
	r.kill(w)
}

// portsInUse starts foreign programs on ports that the machines of a hosts document need: plan and apply report each, and change nothing on
// any machine.
func (r *rig) portsInUse(f *fleet, cp, worker string) {
	r.t.Helper()
	const listen = `use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => $ARGV[0], ReuseAddr => 1) or die $@; sleep`
	for machine, at := range map[string]string{cp: "127.0.0.1:10259", worker: "0.0.0.0:10250"} {
		f.run(machine, "systemd-run --quiet --unit=squatter perl -e '"+listen+"' "+at)
		_, port, _ := strings.Cut(at, ":")
		until(r.t, time.Minute, 100*time.Millisecond, func() error {
			_, err := f.try(machine, "ss -Hltn sport = :"+port+" | grep -q .")
			return err
		})
	}
	const paths = "cd / && find etc opt usr/local var/lib -xdev -path usr/local/lib/naupegos -prune -o -path etc/systemd/system -prune -o -type f -newer /run/e2e-begin -print"
	for _, m := range []string{cp, worker} {
		f.run(m, "touch /run/e2e-begin")
	}
	for _, verb := range [][]string{{"plan", "-f", r.file}, {"apply", "-f", r.file, "--yes"}} {
		saysClearly(r.t, r.run(verb...), 6, cp, "port 10259", "kube-scheduler", worker, "port 10250", "kubelet", "perl (process ", "of squatter.service", "systemctl disable --now squatter.service")
	}
	for _, m := range []string{cp, worker} {
		if changed := strings.TrimSpace(f.run(m, paths)); changed != "" {
			r.t.Errorf("%s: something was changed anyway:\n%s", m, changed)
		}
		f.run(m, "rm /run/e2e-begin; systemctl stop squatter")
	}
}

// notReady waits until the API reports a node as not ready for this reason.
func (r *rig) notReady(node, reason string) {
	r.t.Helper()
	until(r.t, 5*time.Minute, time.Second, func() error {
		for _, m := range r.status().Machines {
			if m.Name == node && strings.HasPrefix(m.Node, "not ready: "+reason) {
				return nil
			}
		}
		return fmt.Errorf("node %s still counts as ready", node)
	})
}
