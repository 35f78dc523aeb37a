//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHA takes one highly available cluster through every part of its life.
func TestHA(t *testing.T) {
	testkit.OnlyFull(t, "TestLife takes a cluster through the parts that users meet first")
	r := newRig(t, "ha")
	s := size{controlPlanes: 3, workers: 2, gateways: 2, kubernetes: release.Former(1)}
	r.document(s)
	r.apply()
	r.sameCluster(s)
	l := startLoad(t, r)
	l.flows(t, 5)
	r.live(t, l, upgrades)
	r.live(t, l, []part{
		{"second apply changes nothing", secondApply},
		{"a backup is made", backedUpCluster},
		{"authorities and keys are rotated", func(t *testing.T, r *rig, l *load) {
			r.rotationIsAbandoned(t, l)
			keysRotate(t, r, l)
		}},
		{"the store is restored elsewhere", storeRestored},
		{"a gateway dies", gatewayDies},
		{"a control-plane machine dies and is replaced", controlPlaneDies},
		{"an edit restarts nothing", editsNothing},
		{"an edit restarts kubelets and servers", editsPrograms},
		{"scale up", scaleTo(size{controlPlanes: 5, workers: 4, gateways: 2})},
		{"a worker's containerd restarts", runtimeRestarts},
		{"scale down", scaleTo(size{controlPlanes: 3, workers: 1, gateways: 2})},
		{"drift is mended", drift},
		{"a changed host key is refused", hostKeyChanges},
		{"the host reboots", hostReboots},
	})
	r.destroy()
}

// secondApply asserts that an apply without changes is quick and does nothing.
func secondApply(t *testing.T, r *rig, _ *load) {
	looked := r.must(0, "plan", "-f", r.file).took
	res := r.must(0, "apply", "-f", r.file, "--yes")
	t.Logf("FIGURE second apply: %v, after a plan of %v", res.took.Round(10*time.Millisecond), looked.Round(10*time.Millisecond))
	if !strings.Contains(res.stdout, "No changes") {
		t.Errorf("it changed something: %v", res)
	}
	if limit := max(r.site.quick()*slower, 2*looked); res.took > limit { // it only plans, which takes long on a slow host
		t.Errorf("it took %v, want %v", res.took, limit)
	}
}

// vipHolder returns the gateway that has the virtual address.
func (r *rig) vipHolder() string {
	r.t.Helper()
	for _, g := range machinesOf(r.status(), provider.Gateway) {
		if g.State != string(provider.Running) {
			continue
		}
		for line := range strings.Lines(r.look(g.Name, "ip -o -4 addr show scope global")) {
			if f := strings.Fields(line); len(f) > 3 && !strings.HasPrefix(f[3], g.Address+"/") { // an address other than its own
				return g.Name
			}
		}
	}
	r.t.Fatal("no gateway has the virtual address")
	return ""
}

func gatewayDies(t *testing.T, r *rig, l *load) {
	holder := r.vipHolder()
	m := l.mark()
	cfg := r.restConfig()
	p := newProber(t, cfg)
	killed := r.kill(holder)
	back, steady := p.outage(killed)
	t.Logf("FIGURE gateway failover: the API answered again %v after %s, which held the address, lost its power; without a pause after %v",
		back.Round(10*time.Millisecond), holder, steady.Round(10*time.Millisecond))
	if limit := r.site.failover() * slower; back > limit {
		t.Errorf("the API answered only %v after the gateway was killed, want %v", back, limit)
	}
	l.flows(t, 10)
	l.suffered(t, "gateway killed", m, harsh)
	if now := r.vipHolder(); now == holder {
		t.Errorf("%s, which was killed, still has the address", holder)
	}
	r.apply()
	r.healthy()
	l.verify(t)
}

// prober requests /readyz continuously, each time with a new connection.
type prober struct {
	t    testing.TB
	stop func() // returns when the probes have ended
	mu   sync.Mutex
	runs []probe

	refused time.Time // first refused connection; zero: the server has answered since
	downs   []span
}

// span is a time when a server was down: from its first refusal to its next answer.
type span struct{ from, to time.Time }

// probe is an answered request.
type probe struct{ asked, answered time.Time }

func newProber(t testing.TB, cfg *rest.Config) *prober {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.CAData)
	cert, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}},
	}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	p := &prober{t: t, stop: func() { stop(); <-done }}
	t.Cleanup(p.stop)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			p.ask(ctx, client, cfg.Host+"/readyz")
		}
	}()
	return p
}

func (p *prober) ask(ctx context.Context, client *http.Client, url string) {
	pause := time.NewTimer(50 * time.Millisecond)
	defer pause.Stop()
	asked := time.Now()
	resp, err := client.Get(url)
	if err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			p.mu.Lock()
			p.runs = append(p.runs, probe{asked, time.Now()})
			if !p.refused.IsZero() {
				p.downs, p.refused = append(p.downs, span{p.refused, time.Now()}), time.Time{}
			}
			p.mu.Unlock()
		}
	} else if errors.Is(err, syscall.ECONNREFUSED) && p.refused.IsZero() {
		p.refused = asked
	}
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}

// outage waits for a row of answers without a gap of a second, counting only requests after since. It returns how long after since the first
// answer came, and how long after since that row began: on a busy host, a reachable API server has gaps of its own.
func (p *prober) outage(since time.Time) (back, steady time.Duration) {
	p.t.Helper()
	const inRow, hole = 20, time.Second
	until(p.t, flowTime, 50*time.Millisecond, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		n, last := 0, since
		for _, r := range p.runs {
			if r.asked.Before(since) {
				continue
			}
			if last.Equal(since) {
				back = r.answered.Sub(since)
			}
			if n++; n == 1 || r.answered.Sub(last) > hole {
				n, steady = 1, r.answered.Sub(since)
			}
			last = r.answered
		}
		if n < inRow {
			return fmt.Errorf("only %d answers in a row", n)
		}
		return nil
	})
	return back, steady
}

// controlPlaneDies kills the machine with etcd's leader, which is the worst case.
func controlPlaneDies(t *testing.T, r *rig, l *load) {
	victim := ""
	for _, m := range machinesOf(r.status(), provider.ControlPlane) {
		if m.Etcd == "leader" {
			victim = m.Name
		}
	}
	if victim == "" {
		t.Fatal("etcd has no leader")
	}
	m := l.mark()
	began := r.kill(victim)
	l.flows(t, 50)
	t.Logf("50 more writes were acknowledged %v after %s lost its power", time.Since(began).Round(10*time.Millisecond), victim)
	l.suffered(t, "control-plane machine killed ("+victim+", etcd's leader)", m, harsh)
	l.verify(t)

	m = l.mark()
	res := r.must(0, "node", "replace", r.name, victim, "--yes")
	t.Logf("FIGURE node replace took %v", res.took.Round(100*time.Millisecond))
	l.suffered(t, "node replace", m, gentle)
	r.healthy()
	r.unchanged()
	l.verify(t)
}

// scaleTo scales control plane and workers up or down, with a concurrent apply in between. Earlier edits must survive.
func scaleTo(to size) func(*testing.T, *rig, *load) {
	return func(t *testing.T, r *rig, l *load) {
		to := to
		if to.extra == "" {
			to.extra, to.pool = r.size.extra, r.size.pool
		}
		to.kubernetes = r.size.kubernetes
		from, m, limit := r.size, l.mark(), gentle
		if from.controlPlanes == 1 { // its only API server restarts
			limit = harsh
		}
		r.document(to)
		var res result
		done := make(chan struct{})
		go func() {
			defer close(done)
			res = r.run("apply", "-f", r.file, "--yes")
		}()
		r.excluded(done)
		<-done
		if res.code != 0 {
			t.Fatal(res)
		}
		l.suffered(t, fmt.Sprintf("scale control plane %d → %d, workers %d → %d", from.controlPlanes, to.controlPlanes, from.workers, to.workers), m, limit)
		r.healthy()
		l.verify(t)
	}
}

// excluded asserts that a second apply is refused with the name of the running one's holder.
func (r *rig) excluded(done <-chan struct{}) {
	r.t.Helper()
	until(r.t, time.Minute, 100*time.Millisecond, func() error {
		select {
		case <-done:
			r.t.Error("the first apply ended before a second one could meet it")
			return nil
		default:
		}
		if out := r.must(0, "history", r.name).stdout; !strings.Contains(out, "running") {
			return fmt.Errorf("no run is going on")
		}
		return nil
	})
	res := r.must(6, "apply", "-f", r.file, "--yes")
	if !strings.Contains(res.stderr, "pid") {
		r.t.Errorf("the holder is not named: %v", res)
	}
	r.t.Logf("second apply: %s", strings.TrimSpace(res.stderr))
}

// drift changes managed files and removes required parts on a worker.
func drift(t *testing.T, r *rig, _ *load) {
	w := machinesOf(r.status(), provider.Worker)[0].Name
	r.ssh(w, "echo '# changed by hand' >> /etc/containerd/config.toml; rm /etc/kubernetes/kubelet.conf; systemctl stop kubelet")
	res := r.must(2, "plan", "-f", r.file)
	for _, want := range []string{"/etc/containerd/config.toml", "/etc/kubernetes/kubelet.conf", "kubelet.service"} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("the plan does not name %s: %v", want, res)
		}
	}
	r.apply()
	r.healthy()
	r.unchanged()
}

// inside runs a command in a machine's namespaces from this host, to simulate changes by a person with access to the disk.
func (r *rig) inside(machine string, argv ...string) string {
	r.t.Helper()
	r.calm.end()
	pid := r.initOf(machine)
	out, err := exec.Command("nsenter", append([]string{"-t", pid, "-m", "-p", "-u", "-i", "-n", "-r", "--"}, argv...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v: %v: %s", machine, argv, err, out)
	}
	return string(out)
}

// hostKeyChanges gives a machine other SSH host keys, as if another machine answered at its address.
func hostKeyChanges(t *testing.T, r *rig, _ *load) {
	w := machinesOf(r.status(), provider.Worker)[0].Name
	swap := "set -e; cd /etc/ssh; mkdir -p /root/keys; cp -a ssh_host_* /root/keys; rm ssh_host_*_key*; ssh-keygen -A; systemctl restart ssh"
	back := "set -e; cd /etc/ssh; rm ssh_host_*_key*; cp -a /root/keys/ssh_host_* .; rm -r /root/keys; systemctl restart ssh"
	r.inside(w, "sh", "-c", swap)
	for _, args := range [][]string{
		{"ssh", r.name, w, "--", "true"},
		{"apply", "-f", r.file, "--yes"},
	} {
		res := r.must(8, args...)
		errors := 0
		for line := range strings.Lines(res.stderr) {
			if strings.HasPrefix(line, "Error:") || strings.HasPrefix(line, "error:") || strings.HasPrefix(line, "naupegos:") {
				errors++
			}
		}
		if errors != 1 || !strings.Contains(res.stderr, w) || !strings.Contains(res.stderr, "host key") {
			t.Errorf("not one error that says which machine has another host key, but %d: %v", errors, res)
		}
	}
	r.inside(w, "sh", "-c", back)
	r.unchanged()
}

// hostReboots removes all state that exists only in the kernel: machines, their mounts, the bridge, the rules.
func hostReboots(t *testing.T, r *rig, l *load) {
	l.end()
	for _, m := range r.status().Machines {
		r.kill(m.Name)
	}
	short := r.id[len(r.id)-8:]
	for _, argv := range [][]string{{"ip", "link", "delete", "nau" + short}, {"nft", "delete", "table", "inet", "naupegos_" + short}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	r.apply()
	r.healthy()
	l.verify(t)
	r.unchanged()
}

// TestGrow grows a control plane from one machine to three under a client. There are no workers: pods run on the control plane, which the smoke test shows.
func TestGrow(t *testing.T) {
	testkit.OnlyFull(t, "TestEtcdService and TestOpenStack do the same to clusters that they have")
	t.Parallel()
	r := newRig(t, "grow")
	r.document(size{controlPlanes: 1, gateways: 1})
	r.apply()
	l := startLoad(t, r)
	l.flows(t, 5)
	m := l.mark()
	r.document(size{controlPlanes: 3, gateways: 1, extra: auditLog})
	r.apply()
	l.suffered(t, "scale control plane 1 → 3, without an audit log", m, harsh) // the only API server restarts
	r.healthy()
	r.unchanged()
	l.verify(t)
	l.end()
	r.destroy()
}
