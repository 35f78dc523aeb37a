//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/provider"
)

// Changes to a document.
const (
	auditLog   = "  security:\n    auditLog:\n      enabled: false\n"                         // on by default: API servers restart
	lessStrict = "  security:\n    cisDefaults: false\n    auditLog:\n      enabled: false\n" // controllers and kubelets restart, too
	poolLabel  = "      labels:\n        e2e.example.org/edited: \"true\"\n"
	otherKey   = "  access:\n    sshKeys:\n      - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA e2e\n"
)

// editsNothing admits another SSH key, which is a file on every machine, and labels a pool's nodes: nothing restarts.
func editsNothing(t *testing.T, r *rig, l *load) {
	to := r.size
	to.extra += otherKey
	to.pool += poolLabel
	r.edit(t, l, to, nil)
	for _, m := range r.status().Machines {
		if !strings.Contains(r.look(m.Name, "cat /root/.ssh/authorized_keys"), " e2e\n") {
			t.Errorf("%s does not know the key", m.Name)
		}
	}
	labelled := r.must(0, "kubectl", r.name, "--", "get", "nodes", "-l", "e2e.example.org/edited=true", "-o", "name").stdout
	if n := strings.Count(labelled, "node/"); n != to.workers {
		t.Errorf("%d nodes have the pool's label, want %d: %s", n, to.workers, labelled)
	}
}

// editsPrograms restarts kubelets, API servers and controllers, and nothing else; never two API servers at a time.
func editsPrograms(t *testing.T, r *rig, l *load) {
	to := r.size
	to.extra += lessStrict
	watched := r.watchServers(t)
	r.edit(t, l, to, map[provider.Role][]string{
		provider.ControlPlane: {"kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}, provider.Worker: {"kubelet"},
	})
	if times := watched(); len(times) > 0 {
		t.Errorf("API servers did not restart one after another: %s", strings.Join(times, ", "))
	}
}

// edit applies a changed document to the living cluster, and asserts that exactly these programs restart on machines of these roles.
func (r *rig) edit(t *testing.T, l *load, to size, restarts map[provider.Role][]string) {
	t.Helper()
	before, m := r.programs(), l.mark()
	r.document(to)
	r.must(2, "plan", "-f", r.file)
	r.apply()
	l.suffered(t, t.Name(), m, gentle)
	after := r.programs()
	for at := range before {
		want, was, is := slices.Contains(restarts[at.role], at.name), before[at], after[at]
		switch {
		case want && was == is:
			t.Errorf("%s on %s was not restarted", at.name, at.machine)
		case !want && was != is:
			t.Errorf("%s on %s was restarted: %q is %q now", at.name, at.machine, was, is)
		}
	}
	r.healthy()
	l.verify(t)
}

// program is a program of the cluster on one machine.
type program struct {
	machine, name string
	role          provider.Role
}

// programs returns the processes of each program and their direct children: PIDs and start times. Grandchildren of the same name are about to
// become something else: keepalived forks its children's check scripts.
func (r *rig) programs() map[program]string {
	r.t.Helper()
	names := map[provider.Role]string{
		provider.ControlPlane: "kubelet containerd etcd kube-apiserver kube-controller-manager kube-scheduler",
		provider.Worker:       "kubelet containerd", provider.Gateway: "haproxy keepalived",
	}
	out := map[program]string{}
	for _, m := range r.status().Machines {
		role := provider.Role(m.Role)
		text := r.look(m.Name, `exec 2>/dev/null; for p in `+names[role]+`; do for i in $(pidof $p | tr ' ' '\n' | sort -n); do
			set -- $(cat /proc/$i/stat) && [ $# -gt 21 ] || continue # ended
			[ "$(cat /proc/$(cut -d' ' -f4 /proc/$4/stat)/comm)" = $p ] || echo $p $i ${22}
		done; done`)
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			out[program{m.Name, f[0], role}] += strings.Join(f[1:], " since ") + "; "
		}
		for _, p := range strings.Fields(names[role]) {
			if out[program{m.Name, p, role}] == "" {
				r.t.Errorf("%s does not run on %s", p, m.Name)
			}
		}
	}
	return out
}

// watchServers asks every API server continually whether it is ready. The returned function lists the times when more than one was down, and the
// servers that never were, although all should restart. A server is down from its first refused connection to its next answer; a slow answer on
// a busy host does not count.
func (r *rig) watchServers(t *testing.T) func() []string {
	t.Helper()
	cfg := r.restConfig()
	var all []*prober
	for _, m := range machinesOf(r.status(), provider.ControlPlane) {
		at := *cfg
		at.Host = "https://" + m.Address + ":6443"
		all = append(all, newProber(t, &at))
	}
	return func() []string { return together(all) }
}

// together stops the probes, and lists the times when more than one server was down, and the servers that never were.
func together(all []*prober) []string {
	var downs []span
	var out []string
	for i, p := range all {
		p.stop()
		if !p.refused.IsZero() {
			p.downs = append(p.downs, span{p.refused, time.Now()})
		}
		if len(p.downs) == 0 {
			out = append(out, fmt.Sprintf("server %d was never down", i+1))
		}
		downs = append(downs, p.downs...)
	}
	for i, a := range downs {
		for _, b := range downs[i+1:] {
			if a.from.Before(b.to) && b.from.Before(a.to) {
				out = append(out, fmt.Sprintf("%s to %s and %s to %s", a.from.Format(time.TimeOnly), a.to.Format(time.TimeOnly), b.from.Format(time.TimeOnly), b.to.Format(time.TimeOnly)))
			}
		}
	}
	return out
}

// runtimeRestarts restarts the containerd of one of several workers: its pods move away before, and may come back afterwards.
func runtimeRestarts(t *testing.T, r *rig, l *load) {
	w, m := machinesOf(r.status(), provider.Worker)[0].Name, l.mark()
	r.ssh(w, "echo '# changed by hand' >> /etc/containerd/config.toml")
	plan := r.must(2, "plan", "-f", r.file).stdout
	for _, want := range []string{"drain node " + w, "restart unit containerd.service", "uncordon node " + w} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan does not say %q:\n%s", want, plan)
		}
	}
	r.apply()
	l.suffered(t, t.Name(), m, gentle)
	if cordoned := r.must(0, "kubectl", r.name, "--", "get", "nodes", "--field-selector", "spec.unschedulable=true", "-o", "name").stdout; cordoned != "" {
		t.Errorf("cordoned afterwards: %s", cordoned)
	}
	r.healthy()
	r.unchanged()
}
