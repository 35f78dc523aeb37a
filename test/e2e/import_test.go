//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/adopt"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// known writes a known_hosts file for the fleet's machines.
func (f *fleet) known(t *testing.T, path string) {
	t.Helper()
	var b strings.Builder
	for _, m := range f.machine {
		fmt.Fprintf(&b, "%s %s\n", m.Address, m.HostKeys[0])
	}
	testkit.Must(t, os.WriteFile(path, []byte(b.String()), 0o600))
}

// nodeRuns lists the containers of a node's pods, and the processes of kubelet and containerd with their command lines. It omits controller managers
// and schedulers, which exit by themselves if the host is too slow for their leases.
func nodeRuns(f *fleet, cp, node string) string {
	f.t.Helper()
	return nodeRunsOn(f, cp, node, node)
}

// nodeRunsOn is nodeRuns for a node whose name differs from its machine's.
func nodeRunsOn(f *fleet, cp, machine, node string) string {
	f.t.Helper()
	return f.run(cp, askAdmin+`get pods -A --field-selector spec.nodeName=`+node+` -o 'jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].containerID}{"\n"}{end}' |
grep -v -e kube-controller-manager -e kube-scheduler | sort`) + f.run(machine, `systemctl show -p MainPID kubelet.service containerd.service
sha256sum /etc/kubernetes/manifests/* /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env /etc/kubernetes/*.conf 2>/dev/null
true`)
}

// TestImport makes a cluster with plain kubeadm, imports it without a restart, and then performs the usual operations on it.
func TestImport(t *testing.T) {
	testkit.OnlyFull(t, "internal/cluster/adopt reads what kubeadm has written")
	t.Parallel()
	former := release.Former(1)
	b := bundletest.Of(t, former)
	const cp, worker, later, theirs = "kube-a", "kube-b", "kube-c", "kube-d"
	f := newFleet(t, "e2ekube", b, cp, worker, later, theirs)
	began := time.Now()
	c := bareKubeadm(t, f, b, []string{cp}, worker)
	t.Logf("FIGURE bare kubeadm made a cluster in %v", time.Since(began).Round(time.Second))
	c.run(cp, askAdmin+"create configmap keep --from-literal=a=b")

	r := newRig(t, "imported")
	key, known := filepath.Join(r.dir, "id_ed25519"), filepath.Join(r.dir, "known_hosts")
	testkit.Must(t, os.WriteFile(key, f.key, 0o600))
	c.known(t, known)
	from := []string{"import", r.name, "--from", f.machine[cp].Address, "--identity", key, "--known-hosts", known}
	before := map[string]string{cp: nodeRuns(f, cp, cp), worker: nodeRuns(f, cp, worker)}

	looked := r.must(0, from...)
	t.Logf("import says\n%s", looked.stdout)
	var report adopt.Report
	testkit.Must(t, json.Unmarshal([]byte(r.must(0, append(from, "-o", "json")...).stdout), &report))
	if !report.Adoptable || report.Document.Spec.Kubernetes.Version != former || len(report.Document.Machines()) != 2 {
		t.Errorf("the report is %+v", report)
	}
	for _, m := range []string{cp, worker} {
		if left := f.run(m, ofNaupegos); left != "" {
			t.Errorf("looking leaves on %s\n%s", m, left)
		}
	}
	c.refused(t, r, from, known, worker)

	adoptIt(t, r, from)
	for _, m := range []string{cp, worker} {
		if now := nodeRuns(f, cp, m); now != before[m] {
			t.Errorf("on %s runs something else:\n%s\nbefore:\n%s", m, now, before[m])
		}
	}
	r.must(6, append(from, "--adopt", "--yes")...)
	if res := r.must(4, "import", "again", "--from", f.machine[cp].Address, "--identity", key, "--known-hosts", known); !strings.Contains(res.stdout, "another cluster that naupegos keeps") {
		t.Errorf("import with another name: %v", res)
	}

	testkit.Must(t, os.WriteFile(r.file, []byte(r.must(0, "document", r.name).stdout), 0o644))
	if res := r.must(2, "plan", "-f", r.file); !strings.Contains(res.stdout, "Disruption: rolling") {
		t.Errorf("the plan after the import does not say that something restarts: %v", res)
	} else {
		t.Logf("the first plan:\n%s", res.stdout)
	}
	r.size.controlPlanes, r.size.workers = 1, 1
	r.apply()
	r.healthy()

	c.run(later, "true")
	r.addHost(t, f, later)
	r.size.workers = 2
	r.apply()
	r.healthy()
	c.prepare(t, "worker", theirs)
	c.join(t, cp, theirs)
	c.run(cp, askAdmin+"delete node "+theirs)
	if out := c.run(cp, "kubeadm certs check-expiration 2>&1"); !strings.Contains(out, "etcd-ca") || strings.Contains(out, "MISSING") {
		t.Errorf("kubeadm certs check-expiration:\n%s", out)
	}
	r.inv.timeout = 15 * time.Minute // pods get new tokens within minutes
	r.must(0, "certs", "rotate", r.name, "--all", "--yes")
	doc := string(testkit.Value(os.ReadFile(r.file))(t))
	testkit.Must(t, os.WriteFile(r.file, []byte(strings.Replace(doc, "version: "+former, "version: "+release.Default, 1)), 0o644))
	r.must(0, "upgrade", r.name, "-f", r.file, "--finish", "--yes")
	r.runs(release.Default, release.Default)
	if kept := c.run(cp, askAdmin+"get configmap keep -o jsonpath={.data.a}"); kept != "b" {
		t.Errorf("what was stored before is %q now", kept)
	}
	r.calm.end()
	r.must(0, "release", r.name, filepath.Join(r.dir, "mine"), "--yes")
	for _, m := range []string{cp, worker, later} {
		if left := f.run(m, ofNaupegos); left != "" {
			t.Errorf("left on %s is\n%s", m, left)
		}
	}
	if out := c.run(cp, "kubeadm certs check-expiration 2>&1"); strings.Contains(out, "MISSING") {
		t.Errorf("kubeadm certs check-expiration:\n%s", out)
	}
}

// TestImportSeveral imports, through a server, a control plane of three machines with etcd manifests in two forms of kubeadm, upgrades it, and
// releases it to its owner.
func TestImportSeveral(t *testing.T) {
	testkit.OnlyFull(t, "internal/cluster/adopt reads what kubeadm has written")
	t.Parallel()
	former := release.Former(1)
	b := bundletest.Of(t, former)
	cps := []string{"kube-a", "kube-b", "kube-c"}
	const worker, upgraded = "kube-d", "kube-b"
	f := newFleet(t, "e2ekubes", b, append(slices.Clone(cps), worker)...)
	c := bareKubeadm(t, f, b, cps, worker)
	c.run(cps[0], askAdmin+"create configmap keep --from-literal=a=b")
	own := "kube-b=https://" + net.JoinHostPort(f.machine[upgraded].Address, "2380") // as kubeadm upgrade writes it
	mirror := askAdmin + "-n kube-system get pod etcd-" + upgraded + " -o 'jsonpath={.status.containerStatuses[0].containerID}'"
	running := c.run(cps[0], mirror)
	c.run(upgraded, `sed -i -e 's|--initial-cluster=.*|--initial-cluster=`+own+`|' -e '/--initial-cluster-state=/d' /etc/kubernetes/manifests/etcd.yaml`)
	until(t, 3*time.Minute, time.Second, func() error {
		out, err := c.try(upgraded, "tr '\\0' '\\n' < /proc/$(pidof etcd)/cmdline; curl -fsS http://127.0.0.1:2381/readyz")
		if err != nil || !strings.Contains(out, "--initial-cluster="+own+"\n") {
			return fmt.Errorf("etcd on %s does not run by its new manifest: %v\n%s", upgraded, err, out) //nolint:errorlint // there may be none
		}
		if out, err = c.try(cps[0], mirror); err != nil || out == "" || out == running { // the test compares the running containers before and after the import
			return fmt.Errorf("the API does not show the new etcd of %s: %v\n%s", upgraded, err, out) //nolint:errorlint // there may be none
		}
		return nil
	})

	r := newRig(t, "several")
	key, known := filepath.Join(r.dir, "id_ed25519"), filepath.Join(r.dir, "known_hosts")
	testkit.Must(t, os.WriteFile(key, f.key, 0o600))
	c.known(t, known)
	from := []string{"import", r.name, "--from", f.machine[cps[0]].Address, "--credential", "hosts", "--known-hosts", known}
	before := map[string]string{}
	hosts := []string{"server", "credential", "add", "hosts", "--file", key, "--clusters", r.name}
	for _, m := range append(slices.Clone(cps), worker) {
		before[m] = nodeRuns(f, cps[0], m)
	}
	here := r.inv
	here.timeout = 15 * time.Minute
	afar := serve(t, nil, r.state).afar(strings.TrimSpace(r.must(0, "server", "token", "create", "taker", "--role", "admin").stdout))
	afar.timeout = here.timeout
	for _, m := range append(slices.Clone(cps), worker) {
		hosts = append(hosts, "--for", f.machine[m].Address)
	}
	r.must(0, hosts...)
	r.inv = afar
	r.must(0, append(from, "--adopt", "--yes")...)
	for m, was := range before {
		if now := nodeRuns(f, cps[0], m); now != was {
			t.Errorf("on %s runs something else:\n%s\nbefore:\n%s", m, now, was)
		}
	}
	testkit.Must(t, os.WriteFile(r.file, []byte(r.must(0, "document", r.name).stdout), 0o644))
	r.size.controlPlanes, r.size.workers = 3, 1
	r.apply()
	r.inv = here
	r.healthy()
	r.inv = afar
	doc := string(testkit.Value(os.ReadFile(r.file))(t))
	testkit.Must(t, os.WriteFile(r.file, []byte(strings.Replace(doc, "version: "+former, "version: "+release.Default, 1)), 0o644))
	r.must(0, "upgrade", r.name, "-f", r.file, "--finish", "--yes")
	r.inv = here
	r.runs(release.Default, release.Default)
	r.healthy()
	if kept := c.run(cps[0], askAdmin+"get configmap keep -o jsonpath={.data.a}"); kept != "b" {
		t.Errorf("what was stored before is %q now", kept)
	}
	r.calm.end()
	r.inv = afar
	mine := filepath.Join(r.dir, "mine")
	r.must(0, "release", r.name, mine, "--yes")
	for m := range before {
		if left := f.run(m, ofNaupegos); left != "" {
			t.Errorf("left on %s is\n%s", m, left)
		}
	}
	if ours, theirs := testkit.Value(os.ReadFile(filepath.Join(mine, "pki/ca.key")))(t), f.run(cps[0], "cat /etc/kubernetes/pki/ca.key"); string(ours) != theirs {
		t.Error("the authority that the server handed over is not the cluster's")
	}
}

// refused tries imports that are refused before they change anything.
func (c *somebodys) refused(t *testing.T, r *rig, from []string, known, worker string) {
	t.Helper()
	pinned := testkit.Value(os.ReadFile(known))(t)
	address := c.machine[worker].Address
	var without, wrong strings.Builder
	for line := range strings.Lines(string(pinned)) {
		if !strings.HasPrefix(line, address+" ") {
			without.WriteString(line)
			wrong.WriteString(line)
		}
	}
	fmt.Fprintf(&wrong, "%s %s\n", address, somebodysKey)
	for _, bad := range []struct {
		known string
		code  int
		says  string
	}{{without.String(), 4, "no SSH host key is known for " + address}, {wrong.String(), 8, worker}} {
		testkit.Must(t, os.WriteFile(known, []byte(bad.known), 0o600))
		if res := r.must(bad.code, append(from, "--adopt", "--yes")...); !strings.Contains(res.stderr, bad.says) {
			t.Errorf("want %q: %v", bad.says, res)
		}
	}
	testkit.Must(t, os.WriteFile(known, pinned, 0o600))
	if res := r.must(0, "status"); !strings.Contains(res.stdout, "No clusters") {
		t.Errorf("something was begun: %v", res)
	}
}

// adoptIt adopts a cluster, killed at every step boundary.
func adoptIt(t *testing.T, r *rig, from []string) {
	t.Helper()
	killed := invocation{bin: built.kill, env: []string{"NAUPEGOS_KILL_ONCE=" + filepath.Join(r.dir, "import-boundaries")}}
	began, died := time.Now(), 0
	for {
		res := naupegos(t, killed, append([]string{"--state-dir", r.state}, append(from, "--adopt", "--yes")...)...)
		if res.code == 0 || res.code == 6 && died > 0 { // killed after the last step, the import is complete
			break
		}
		if died++; res.code != -1 || died > 20 {
			t.Fatalf("after %d deaths: %v", died, res)
		}
	}
	t.Logf("FIGURE an import that was killed at %d boundaries: %v", died, time.Since(began).Round(100*time.Millisecond))
}

// addHost adds a host to the document as a worker.
func (r *rig) addHost(t *testing.T, f *fleet, name string) {
	t.Helper()
	m := f.machine[name]
	doc := string(testkit.Value(os.ReadFile(r.file))(t))
	entry := fmt.Sprintf("machines:\n        - {name: %s, address: %s, role: worker, pool: general, hostKey: %s}\n", name, m.Address, m.HostKeys[0])
	added := strings.Replace(doc, "machines:\n", entry, 1)
	if added == doc {
		t.Fatalf("the document has no machines:\n%s", doc)
	}
	testkit.Must(t, os.WriteFile(r.file, []byte(added), 0o644))
}
