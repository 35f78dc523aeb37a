//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// unharmed allows no failed request: a change of settings is in good order.
var unharmed = bound{stall: 10 * time.Second}

// setting is a group of a document's settings that one apply brings, and their effects.
type setting struct {
	name       string
	kubernetes string   // lines for spec.kubernetes, indented by four spaces
	pool       string   // lines for the pool, indented by six spaces
	extra      string   // lines for spec, indented by two spaces
	fields     []string // of the document, which the plan names
	changes    []string // what the plan says about machines and objects
	effects    func(t *testing.T, r *rig)
}

// sized returns the cluster with these settings.
func sized(workers int, all ...setting) size {
	s := size{controlPlanes: 3, workers: workers, gateways: 1}
	kubernetes := ""
	for _, g := range all {
		kubernetes += g.kubernetes
		s.pool += g.pool
		s.extra += g.extra
	}
	if kubernetes != "" {
		s.extra += "  kubernetes:\n" + kubernetes
	}
	return s
}

// TestSettings applies every kind of setting to a running cluster under a client that counts failures, sees them in the programs and machines, and takes
// them back: the machines are as before.
func TestSettings(t *testing.T) {
	testkit.OnlyFull(t, "unit and integration tests of each setting, and TestLife restarts programs by an edit")
	o := newOutside(t, "10.76.6")
	r := newRigOn(t, o, "settings")
	r.document(sized(2))
	r.apply()
	startResolver(t, o)
	bare := r.secondApply()
	before := r.inventories()
	audited, auditPort := o.audits()
	groups := []setting{machineSettings(o), componentSettings(o, auditPort, audited), kubeletSettings(), outsideSettings(o, r.dir)}
	l := startLoad(t, r)
	l.flows(t, 5)
	var parts []part
	for i, g := range groups {
		parts = append(parts, part{g.name, func(t *testing.T, r *rig, l *load) { r.sets(t, l, sized(2, groups[:i+1]...), g) }})
	}
	parts = append(parts,
		part{"second apply", func(t *testing.T, r *rig, _ *load) { r.isAsFast(t, bare) }},
		part{"a new worker has all settings", func(t *testing.T, r *rig, _ *load) { r.settlesNewWorker(t, groups) }},
		part{"an argument keeps an API server from starting", func(t *testing.T, r *rig, l *load) { r.stopsAtFirst(t, l, groups) }},
		part{"the settings are taken back", func(t *testing.T, r *rig, l *load) { r.takesBack(t, l, before) }},
	)
	r.live(t, l, parts)
	l.end()
	r.destroy()
}

// sets applies a group of settings, which the plan names, and sees their effects.
func (r *rig) sets(t *testing.T, l *load, to size, g setting) {
	t.Helper()
	m := l.mark()
	r.document(to)
	r.namesChanges(t, g.fields, g.changes)
	r.apply()
	l.suffered(t, g.name, m, unharmed)
	r.healthy()
	g.effects(t, r)
	l.verify(t)
}

// namesChanges asserts that the plan names these fields of the document, and that its steps say these texts.
func (r *rig) namesChanges(t *testing.T, fields, texts []string) {
	t.Helper()
	out := r.must(2, "plan", "-f", r.file, "-o", "json").stdout
	var p struct {
		Document []delta.Delta
		Steps    []json.RawMessage
	}
	testkit.Must(t, json.Unmarshal([]byte(out), &p))
	var named []string
	for _, d := range p.Document {
		named = append(named, d.Name)
	}
	for _, want := range fields {
		if !slices.ContainsFunc(named, func(name string) bool { return strings.HasPrefix(name, want) }) {
			t.Errorf("the plan does not name %s, but %s", want, strings.Join(named, ", "))
		}
	}
	var steps strings.Builder
	for _, s := range p.Steps {
		steps.Write(s)
	}
	for _, want := range texts {
		if !strings.Contains(steps.String(), want) {
			t.Errorf("no step of the plan says %q", want)
		}
	}
}

// secondApply returns the time of an apply without changes: the shortest of three.
func (r *rig) secondApply() time.Duration {
	r.t.Helper()
	shortest := time.Hour
	for range 3 {
		res := r.call("apply", "-f", r.file, "--yes")
		if res.code != 0 || !strings.Contains(res.stdout+res.stderr, "No changes") {
			r.t.Errorf("there should be nothing to do: %v", res)
		}
		shortest = min(shortest, res.took)
	}
	return shortest
}

// isAsFast compares the second apply with everything set to the one without.
func (r *rig) isAsFast(t *testing.T, bare time.Duration) {
	t.Helper()
	full := r.secondApply()
	ratio := float64(full) / float64(bare)
	t.Logf("FIGURE the second apply takes %v with all settings, %v without: %.2f times as long", full.Round(10*time.Millisecond), bare.Round(10*time.Millisecond), ratio)
	if ratio > 1.2 && full-bare > 500*time.Millisecond*slower { // of a second or two, the host's noise is more than a fifth
		t.Error("that is too much longer")
	}
}

// settlesNewWorker adds a worker, which runs the hooks and has all settings from its start.
func (r *rig) settlesNewWorker(t *testing.T, groups []setting) {
	t.Helper()
	hooks := setting{pool: `      machines:
        hooks:
          beforeInstall: [{name: first, run: "test ! -e /etc/beat.conf && echo $NAUPEGOS_HOOK $NAUPEGOS_MACHINE >> /root/hooks"}]
          afterInstall: [{name: last, run: "test -e /etc/beat.conf && echo $NAUPEGOS_HOOK $NAUPEGOS_MACHINE >> /root/hooks"}]
`}
	r.document(sized(3, append(slices.Clone(groups), hooks)...))
	r.apply()
	r.healthy()
	added := r.name + "-general-3"
	if got, want := r.look(added, "cat /root/hooks"), "beforeInstall "+added+"\nafterInstall "+added+"\n"; got != want {
		t.Errorf("the hooks wrote %q, want %q", got, want)
	}
	for _, g := range groups {
		g.effects(t, r)
	}
	r.document(sized(2, groups...))
	r.apply()
}

// stopsAtFirst sets an argument that the API server's flags allow, and the server itself refuses: the roll stops at the first machine, and goes back when
// the document does.
func (r *rig) stopsAtFirst(t *testing.T, l *load, groups []setting) {
	t.Helper()
	m, before := l.mark(), r.programs()
	bad := slices.Clone(groups)
	for i := range bad {
		bad[i].kubernetes = strings.Replace(bad[i].kubernetes, "        - {name: event-ttl", "        - {name: service-account-max-token-expiration, value: 10m}\n        - {name: event-ttl", 1)
	}
	r.document(sized(2, bad...))
	r.must(0, "validate", "-f", r.file)
	res := r.run("apply", "-f", r.file, "--yes")
	t.Logf("FIGURE the roll stopped after %v", res.took.Round(time.Second))
	if res.code == 0 || !strings.Contains(res.stderr, "service-account-max-token-expiration") || !strings.Contains(res.stderr, "kube-apiserver") {
		t.Errorf("want the last lines of the API server: %v", res)
	}
	t.Logf("apply says:\n%s", res.stderr)
	again := r.run("apply", "-f", r.file, "--yes")
	t.Logf("FIGURE the same apply stopped after %v", again.took.Round(time.Second))
	if again.code == 0 || !strings.Contains(again.stderr, "service-account-max-token-expiration") {
		t.Errorf("the same apply again: %v", again)
	}
	until(t, time.Minute*slower, time.Second, func() error { // at times kubelet starts the server for a second
		for _, c := range r.status().Causes {
			if c.Kind == "program-ended" {
				return nil
			}
		}
		return errors.New("status does not say that the API server does not run")
	})
	hit := 0
	for at, was := range r.programsOf(provider.ControlPlane, "kube-apiserver") {
		if was != before[at] {
			hit++
		}
	}
	if hit > 1 {
		t.Errorf("the roll reached %d API servers", hit)
	}
	r.document(sized(2, groups...))
	r.apply()
	r.healthy()
	l.suffered(t, t.Name(), m, unharmed)
}

// programsOf returns the processes of one program on the machines of a role; on a machine where it does not run, it is "".
func (r *rig) programsOf(role provider.Role, name string) map[program]string {
	r.t.Helper()
	out := map[program]string{}
	for _, m := range machinesOf(r.status(), role) {
		out[program{m.Name, name, role}] = ""
		for line := range strings.Lines(r.look(m.Name, "for i in $(pidof "+name+" | tr ' ' '\\n' | sort -n); do set -- $(cat /proc/$i/stat) && echo "+name+" $i ${22}; done")) {
			f := strings.Fields(line)
			out[program{m.Name, name, role}] += strings.Join(f[1:], " since ") + "; "
		}
	}
	return out
}

// takesBack removes all settings: the machines are as before.
func (r *rig) takesBack(t *testing.T, l *load, before map[string][]string) {
	t.Helper()
	m := l.mark()
	r.document(sized(2))
	r.namesChanges(t, []string{"spec.machines", "spec.kubernetes.apiServer", "spec.proxy", "spec.registries"}, nil)
	r.apply()
	l.suffered(t, t.Name(), m, unharmed)
	r.healthy()
	after := r.inventories()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		for _, d := range differences(before[name], after[name]) {
			t.Errorf("%s: %s", name, d)
		}
	}
	l.verify(t)
}

// taken lists a machine's state: files of the directories that settings may change, with mode, owner and content; packages; enabled units; kernel settings;
// the arguments of the programs; and the agent's own record.
const taken = `cd /
find etc root srv opt home usr/local usr/lib/systemd usr/share/ca-certificates usr/share/zoneinfo var/lib/kubelet/config.yaml -xdev -printf 'file /%p %y %m %u:%g %l\n' 2>/dev/null
find etc root srv opt home usr/local usr/lib/systemd usr/share/ca-certificates var/lib/kubelet/config.yaml -xdev -type f -size -2048k -print0 2>/dev/null | xargs -0 sha256sum | sed 's/^\(\S*\)  \(.*\)$/content \/\2 \1/'
sed '/naupegos.dev\/files/d; s/^/manifest /' etc/kubernetes/manifests/kube-apiserver.yaml 2>/dev/null
dpkg-query -W -f 'package ${Package} ${Version} ${db:Status-Status}\n'
systemctl list-unit-files --no-legend --plain --no-pager | sed 's/^/unit /'
sysctl net.ipv4.tcp_keepalive_time net.core.somaxconn 2>/dev/null | sed 's/^/kernel /'
date +'zone %Z'
for p in kubelet containerd etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy haproxy; do for i in $(pidof $p); do
	[ "$(cat /proc/$(cut -d' ' -f4 /proc/$i/stat)/comm)" = $p ] || echo "process $p $(tr '\0' ' ' < /proc/$i/cmdline)"
done; done
iptables-save 2>/dev/null | grep -c KUBE-SVC | sed 's/^/iptables rules of Services: /'
echo "agent $(cat /var/lib/naupegos/agent/state.json)"`

// inventories returns the state of each machine; see taken.
func (r *rig) inventories() map[string][]string {
	r.t.Helper()
	out := map[string][]string{}
	for _, m := range r.status().Machines {
		var all []string
		for line := range strings.Lines(r.look(m.Name, taken)) {
			line = strings.TrimSpace(line)
			if record, ok := strings.CutPrefix(line, "agent "); ok {
				all = append(all, agentLines(r.t, record)...)
			} else if !explained(line) {
				all = append(all, line)
			}
		}
		slices.Sort(all)
		out[m.Name] = slices.Compact(all)
		if len(all) < 500 {
			r.t.Errorf("%s lists only %d things", m.Name, len(all))
		}
	}
	return out
}

// explained reports whether a thing may differ, although the settings are gone.
func explained(line string) bool {
	return slices.ContainsFunc([]string{
		"content /etc/kubernetes/pki/apiserver.crt ", "content /etc/kubernetes/pki/apiserver.key ", // the certificate has lost a name: it was issued again
		"content /etc/kubernetes/manifests/kube-apiserver.yaml ",                                                // an annotation has the certificate's digest; other lines are compared
		"content /etc/ssh/sshd_config.d/50-cloud-init.conf ", "file /etc/ssh/sshd_config.d/50-cloud-init.conf ", // cloud-init writes it in its last stage, at any time
		"content /root/hooks", "file /root/hooks", // a hook wrote it
	}, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
}

// agentLines splits the agent's record into lines, without its time and its configuration's digest.
func agentLines(t testing.TB, record string) (out []string) {
	t.Helper()
	var all map[string]any
	testkit.Must(t, json.Unmarshal([]byte(record), &all))
	for _, key := range []string{"digest", "applied", "pending", "images"} {
		delete(all, key)
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			for k, v := range m {
				walk(at+" "+k, v)
			}
			return
		}
		text, err := json.Marshal(v)
		testkit.Must(t, err)
		out = append(out, at+": "+string(text))
	}
	walk("agent's", all)
	return out
}

// differences lists lines of only one of two lists.
func differences(before, after []string) (out []string) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			out = append(out, "gone: "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			out = append(out, "new: "+line)
		}
	}
	return out
}

// audits serves an audit webhook, and returns how many events it got.
func (o *outside) audits() (events func() int, port int) {
	o.t.Helper()
	var got testkit.Buffer
	port, _ = o.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list struct{ Items []json.RawMessage }
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(&got, strings.Repeat("x", len(list.Items)))
	}))
	return func() int { return len(got.String()) }, port
}

// startResolver starts BIND at this host's address in the cluster's network, with a zone site.test. It asks this host's own name servers for other names.
func startResolver(t *testing.T, o *outside) {
	t.Helper()
	dir := t.TempDir()
	var forwarders string
	for line := range strings.Lines(string(testkit.Value(os.ReadFile("/etc/resolv.conf"))(t))) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			forwarders += f[1] + "; "
		}
	}
	for file, text := range map[string]string{
		"zone": "$TTL 60\n@ IN SOA ns hostmaster 1 60 60 600 60\n@ IN NS ns\nns IN A 192.0.2.53\nweb IN A 192.0.2.77\n",
		"named.conf": fmt.Sprintf("options { directory %q; pid-file none; session-keyfile none; listen-on { %s; }; listen-on-v6 { none; }; recursion yes; allow-query { any; }; forward only; forwarders { %s }; dnssec-validation no; };\ncontrols { };\nzone \"site.test\" { type primary; file \"zone\"; };\n",
			dir, o.host4(), forwarders),
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	runsUntilEnd(t, "named", "-g", "-c", filepath.Join(dir, "named.conf"))
}
