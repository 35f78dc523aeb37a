package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// signs are the inputs of causes besides the status itself.
type signs struct {
	now      time.Time
	built    bool     // the API has answered once
	apiErr   error    // why the API does not answer
	etcdErr  error    // why etcd does not answer
	underway *Cause   // an unfinished reset, release, import, recovery or restore
	restored string   // time of the backup from which the store was restored; empty: the store was not restored
	pending  bool     // the stored document differs from the document that the cluster was last brought to
	moving   bool     // an upgrade is not finished
	soaking  string   // why an upgrade waits
	rotating bool     // a rotation is not finished
	held     string   // why a rotation waits
	bundle   string   // the consent without which apply refuses the local bundle
	newer    bool     // a newer bundle is available
	unpacked bool     // the cluster's bundle is available
	records  bool     // kubeadm's records in the cluster differ
	addons   []string // titles of addons and sets that differ: "addon flannel", "chart web"
	proxy    bool     // a foreign kubeadm has reset kube-proxy
}

// causes lists everything that keeps a cluster from being healthy, the most severe first, and then remarks.
func causes(s *Status, g signs) []Cause {
	j := &judgement{s: s, g: g}
	j.wholeCluster()
	for _, m := range s.Machines {
		if g.built || m.State == unwanted {
			j.machine(m)
		}
	}
	j.quorumMargin()
	j.certificates()
	j.drift()
	j.notes()
	slices.SortStableFunc(j.found, func(a, b finding) int { return rank(a.kind) - rank(b.kind) })
	return fold(j.found)
}

// kinds lists the kinds of causes by state, the most severe first.
var kinds = []struct {
	state State
	kinds []string
}{
	{Unhealthy, []string{"underway", "not-built", "quorum-lost", "etcd-silent", "api-silent", "machine-missing", "machine-off", "machine-unreachable", "machine-failed",
		"etcd-member", "quorum-margin", "machine-silent", "program-ended", "node-missing", "node-not-ready", "unit-down", "certificate-expired", "backup-overdue"}},
	{Drifted, []string{"restored", "upgrade", "rotation", "document", "replacement", "machine-changed", "machine-pending", "node-marks", "addon", "records", "bundle",
		"certificate-due", "unwanted", "unchecked"}},
	{Healthy, []string{"soaking", "rotation-held", "newer-bundle", "cordoned"}},
}

func rank(kind string) int {
	n := 0
	for _, k := range kinds {
		for _, name := range k.kinds {
			if name == kind {
				return n
			}
			n++
		}
	}
	return n
}

func stateOf(kind string) State {
	for _, k := range kinds {
		if slices.Contains(k.kinds, kind) {
			return k.state
		}
	}
	return Unhealthy
}

// finding is a cause before the findings of several machines are joined.
type finding struct {
	kind         string
	machine      string // empty: the whole cluster
	text         string // about the whole cluster: the text; about one machine: the text after its name
	many         string // text after the names of several machines; empty: equal findings are not joined
	before       string // text before the names: "label tier of "
	remedy, does string
	doesMany     string
}

// fold joins findings that differ only in their machine, and keeps their order.
func fold(found []finding) (out []Cause) {
	at := map[finding]int{}
	texts := map[int]finding{}
	for _, f := range found {
		c := Cause{State: stateOf(f.kind), Kind: f.kind, Text: f.before + f.machine + f.text, Remedy: f.remedy, Does: f.does}
		if f.machine != "" {
			c.Machines = []string{f.machine}
		}
		key := f
		key.machine = ""
		i, alike := at[key]
		if f.machine == "" || f.many == "" || !alike {
			at[key] = len(out)
			texts[len(out)] = f
			out = append(out, c)
			continue
		}
		out[i].Machines = append(out[i].Machines, f.machine)
		out[i].Text = texts[i].before + names(out[i].Machines) + texts[i].many
		if texts[i].doesMany != "" {
			out[i].Does = texts[i].doesMany
		}
	}
	return out
}

// mostNames is the maximum number of machines that a cause names.
const mostNames = 3

// names lists machines for people: "a, b and c", or "a, b, c and 4 more".
func names(all []string) string {
	switch n := len(all); {
	case n == 1:
		return all[0]
	case n <= mostNames:
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(all[:mostNames], ", "), n-mostNames)
	}
}

// judgement collects findings.
type judgement struct {
	s     *Status
	g     signs
	found []finding
}

func (j *judgement) add(f finding) { j.found = append(j.found, f) }

// apply returns the command that brings the cluster to its document.
func (j *judgement) apply() string { return "naupegos apply -f " + j.file() }

func (j *judgement) file() string {
	if j.s.DocumentFile != "" {
		return j.s.DocumentFile
	}
	return "FILE"
}

func (j *judgement) wholeCluster() {
	if u := j.g.underway; u != nil {
		j.add(finding{kind: "underway", text: u.Text, remedy: u.Remedy, does: u.Does})
	}
	if !j.g.built {
		if j.g.underway == nil {
			j.add(finding{kind: "not-built", text: "it is not up yet", remedy: j.apply(), does: "builds it"})
		}
		return
	}
	off := j.off("control-plane")
	remedy, does := "naupegos doctor "+j.s.Name, "says which part does not answer"
	because := ""
	if len(off) > 0 {
		remedy, does, because = j.apply(), "starts "+names(off), ", and "+names(off)+" "+isAre(off)+" off"
	}
	switch q := j.s.Quorum; {
	case j.g.etcdErr != nil:
		j.add(finding{kind: "etcd-silent", text: "etcd does not answer" + because, remedy: remedy, does: does})
	case q != nil && q.Healthy < q.Needed:
		f := finding{kind: "quorum-lost", text: fmt.Sprintf("etcd has lost its quorum: %d of %d voters healthy, %d needed%s", q.Healthy, q.Voters, q.Needed, because), remedy: remedy, does: does}
		if alive := j.members("leader", "voter"); len(off) == 0 && len(alive) > 0 {
			f.remedy, f.does = "naupegos etcd recover "+j.s.Name+" --from "+alive[0], "continues with its data, if the others can't come back"
		}
		j.add(f)
	}
	switch {
	case j.g.apiErr == nil:
	case fail.KindOf(j.g.apiErr) == fail.Unauthorized:
		j.add(finding{kind: "api-silent", text: "the Kubernetes API does not accept Naupegos' certificate", remedy: "naupegos doctor " + j.s.Name, does: "checks it"})
	default:
		j.add(finding{kind: "api-silent", text: "the Kubernetes API does not answer" + because, remedy: remedy, does: does})
	}
}

func doNot(n int) string {
	if n == 1 {
		return " does not run"
	}
	return " do not run"
}

func isAre(all []string) string {
	if len(all) == 1 {
		return "is"
	}
	return "are"
}

// off lists the machines of a role that their provider reports as switched off.
func (j *judgement) off(role string) (all []string) {
	for _, m := range j.s.Machines {
		if m.Role == role && m.State == string(provider.Stopped) {
			all = append(all, m.Name)
		}
	}
	return all
}

// members lists the machines whose etcd members are in one of these states.
func (j *judgement) members(states ...string) (all []string) {
	for _, m := range j.s.Machines {
		if slices.Contains(states, m.Etcd) {
			all = append(all, m.Name)
		}
	}
	return all
}

// machine finds the problems of one machine. It leaves out consequences of a finding, such as the silent kubelet of a machine that is off.
func (j *judgement) machine(m MachineStatus) {
	f := finding{machine: m.Name}
	switch m.State {
	case string(provider.Running):
		j.running(m)
		return
	case unwanted:
		f.kind, f.text, f.many, f.remedy, f.does, f.doesMany = "unwanted", " is not in the document", " are not in the document", j.apply(), "removes it", "removes them"
	case missing:
		f.kind, f.text, f.many, f.remedy, f.does, f.doesMany = "machine-missing", " does not exist", " do not exist", j.apply(), "creates it", "creates them"
	case string(provider.Stopped):
		f.kind, f.text, f.many, f.remedy, f.does, f.doesMany = "machine-off", " is off", " are off", j.apply(), "starts it", "starts them"
	case string(provider.Unreachable):
		f.kind, f.text, f.many, f.remedy, f.does = "machine-unreachable", " does not answer", " do not answer", "naupegos doctor "+j.s.Name, "says why"
	case string(provider.Partial):
		f.kind, f.text, f.many, f.remedy, f.does, f.doesMany = "machine-failed", " is only half made", " are only half made", j.apply(), "completes it", "completes them"
	default:
		f.kind, f.text, f.many, f.remedy, f.does = "machine-failed", " is "+m.State, " are "+m.State, "naupegos node replace "+j.s.Name+" "+m.Name, "puts another machine in its place"
	}
	j.add(f)
	if m.State != unwanted && m.Config == toBeReplaced {
		j.replacement(m)
	}
}

func (j *judgement) replacement(m MachineStatus) {
	j.add(finding{kind: "replacement", machine: m.Name, text: " is to be replaced", many: " are to be replaced", remedy: j.apply(), does: "replaces it", doesMany: "replaces them"})
}

// running finds the problems of a running machine.
func (j *judgement) running(m MachineStatus) {
	sick := m.Problem != "" && m.Config != toBeReplaced
	if sick {
		j.add(finding{kind: "machine-silent", machine: m.Name, text: " runs, but can't be asked for its configuration", many: " run, but can't be asked for their configuration",
			remedy: "naupegos doctor " + j.s.Name, does: "says why"})
	}
	show := "naupegos ssh " + j.s.Name + " " + m.Name + " -- journalctl -n 50 -u kubelet -u containerd"
	switch m.Etcd {
	case "", "voter", "leader", "unknown":
	case "learner":
		j.add(finding{kind: "etcd-member", machine: m.Name, before: "the etcd member of ", text: " has no vote yet", remedy: j.apply(), does: "gives it one"})
		sick = true
	case notAMember:
		j.add(finding{kind: "etcd-member", machine: m.Name, text: " is not a member of etcd", many: " are not members of etcd", remedy: j.apply(), does: "joins it", doesMany: "joins them"})
		sick = true
	case unreachable:
		if !j.silentEtcd() {
			j.add(finding{kind: "etcd-member", machine: m.Name, before: "the etcd member of ", text: " does not answer", remedy: show, does: "shows why"})
		}
		sick = true
	default:
		j.add(finding{kind: "etcd-member", machine: m.Name, before: "the etcd member of ", text: " raises an alarm: " + m.Etcd, remedy: show, does: "shows why"})
		sick = true
	}
	if len(m.Ended) > 0 && !sick {
		j.add(finding{kind: "program-ended", machine: m.Name, text: ": " + strings.Join(m.Ended, ", ") + doNot(len(m.Ended)), remedy: "naupegos logs " + j.s.Name + " " + m.Name + " -c " + m.Ended[0], does: "shows why"})
		sick = true
	}
	repair := "naupegos repair " + j.s.Name + " --machine " + m.Name
	switch m.Node {
	case "", "unknown", "Ready":
	case "Ready, cordoned":
		j.add(finding{kind: "cordoned", machine: m.Name, text: " takes no new pods (cordoned)", remedy: "naupegos node uncordon " + j.s.Name + " " + m.Name, does: "lets pods onto it again"})
	case notRegistered:
		j.add(finding{kind: "node-missing", machine: m.Name, before: "node ", text: " is not registered", many: " are not registered", remedy: j.apply(), does: "waits for it, and says what keeps it away"})
		sick = true
	default:
		j.add(finding{kind: "node-not-ready", machine: m.Name, before: "node ", text: " is " + m.Node, remedy: repair, does: "repairs it"})
		sick = true
	}
	j.configuration(m, sick)
}

// silentEtcd reports whether a finding states that etcd as a whole does not answer or has lost its quorum.
func (j *judgement) silentEtcd() bool {
	return slices.ContainsFunc(j.found, func(f finding) bool { return f.kind == "etcd-silent" || f.kind == "quorum-lost" })
}

// configuration finds differences on a machine and its node.
func (j *judgement) configuration(m MachineStatus, sick bool) {
	if m.Config == toBeReplaced {
		j.replacement(m)
		return
	}
	if m.Config == unknown && !sick {
		j.add(finding{kind: "unchecked", machine: m.Name, before: "the configuration of ", text: " was not checked", many: " was not checked", remedy: j.check(), does: "makes the bundle available that the check needs"})
	}
	j.differences(m, sick)
	for _, d := range m.NodeDiffers {
		what, _, _ := strings.Cut(d, ": ")
		j.add(finding{kind: "node-marks", machine: m.Name, before: what + " of ", text: " differs", many: " differs", remedy: j.apply(), does: "corrects it"})
	}
}

func (j *judgement) check() string { return "naupegos bundle build --kubernetes " + j.s.Kubernetes }

// differences finds the pending changes of the machine's agent.
func (j *judgement) differences(m MachineStatus, sick bool) {
	if m.Changes == nil || *m.Changes == 0 {
		return
	}
	if down := stopped(m.Differs); len(down) > 0 && !sick {
		j.add(finding{kind: "unit-down", machine: m.Name, text: fmt.Sprintf(": %s does not run", strings.Join(down, ", ")), remedy: j.apply(), does: "starts it"})
		if len(down) == *m.Changes {
			return
		}
	}
	what := kindsOf(m.Differs, *m.Changes)
	if j.g.pending || j.g.moving || j.g.rotating || j.g.bundle != "" {
		j.add(finding{kind: "machine-pending", machine: m.Name, before: what + " of ", text: differ(*m.Changes) + " from the document", remedy: j.apply(), does: "changes " + itThem(*m.Changes)})
		return
	}
	j.add(finding{kind: "machine-changed", machine: m.Name, before: what + " of ", text: wereChanged(*m.Changes), remedy: "naupegos plan -f " + j.file(), does: "shows what apply puts back"})
}

func differ(n int) string {
	if n == 1 {
		return " differs"
	}
	return " differ"
}

func itThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

func wereChanged(n int) string {
	if n == 1 {
		return " was changed on the machine"
	}
	return " were changed on the machine"
}

// stopped lists the units that the agent would only start, because they have been up before.
func stopped(differs []Difference) (units []string) {
	for _, d := range differs {
		if d.Action == "create" {
			return nil // the machine was never configured, or lacks something that is new
		}
		if d.Kind == "unit" && d.Action == "start" {
			units = append(units, d.Name)
		}
	}
	return units
}

// kindsOf describes n differences: by name if there is only one, by their kind if they share one.
func kindsOf(differs []Difference, n int) string {
	if len(differs) == 0 || len(differs) != n {
		return words.Count(n, "setting", "settings")
	}
	kind := differs[0].Kind
	if slices.ContainsFunc(differs, func(d Difference) bool { return d.Kind != kind }) {
		return words.Count(n, "setting", "settings")
	}
	if n == 1 {
		return kind + " " + differs[0].Name
	}
	plural := kind + "s"
	if kind == "directory" || kind == "binary" {
		plural = strings.TrimSuffix(kind, "y") + "ies"
	}
	return words.Count(n, kind, plural)
}

// quorumMargin reports an etcd that tolerates fewer failures than its size allows.
func (j *judgement) quorumMargin() {
	q := j.s.Quorum
	if q == nil || j.g.etcdErr != nil || q.Healthy < q.Needed || q.Healthy == q.Voters {
		return
	}
	f := finding{kind: "quorum-margin", text: fmt.Sprintf("etcd tolerates %s: %d of %d voters healthy, %d needed", failures(q.Tolerates), q.Healthy, q.Voters, q.Needed)}
	j.add(f)
}

func failures(n int) string {
	if n == 0 {
		return "no further failure"
	}
	return "only " + words.Count(n, "further failure", "further failures")
}

func (j *judgement) certificates() {
	s := j.s
	expired := !s.Expires.IsZero() && !j.g.now.Before(s.Expires)
	renew := "naupegos renew " + s.Name
	switch {
	case expired:
		j.add(finding{kind: "certificate-expired", text: "certificate " + s.ExpiresOf + " has expired", remedy: renew, does: "renews it"})
	case len(s.Due) == 1:
		j.add(finding{kind: "certificate-due", text: "certificate " + s.Due[0] + " is due for renewal", remedy: renew, does: "renews it"})
	case len(s.Due) > 1:
		j.add(finding{kind: "certificate-due", text: fmt.Sprintf("%d certificates are due for renewal, the first is %s", len(s.Due), s.Due[0]), remedy: renew, does: "renews them"})
	}
	if b := s.Backups; b != nil && b.Scheduled != nil && b.Scheduled.Overdue {
		j.add(finding{kind: "backup-overdue", text: "the backup on schedule is overdue", remedy: "naupegos backup create " + s.Name, does: "makes one now"})
	}
}

// drift finds changes that apply would make to the cluster as a whole.
func (j *judgement) drift() {
	if !j.g.built {
		return
	}
	g := j.g
	if g.restored != "" {
		j.add(finding{kind: "restored", text: "the store was restored from a backup made " + g.restored, remedy: j.apply(), does: "brings the cluster to the document again"})
	}
	if g.moving {
		j.add(finding{kind: "upgrade", text: "the upgrade to " + j.s.Kubernetes + " is not finished", remedy: j.apply(), does: "continues it"})
	}
	if g.rotating {
		j.add(finding{kind: "rotation", text: "the rotation of keys is not finished", remedy: j.apply(), does: "continues it"})
	}
	if g.pending && !g.moving {
		j.add(finding{kind: "document", text: "the stored document has not been applied", remedy: j.apply(), does: "applies it"})
	}
	for _, name := range g.addons {
		j.add(finding{kind: "addon", text: name + " differs", remedy: j.apply(), does: "corrects it"})
	}
	if g.records || g.proxy {
		j.add(finding{kind: "records", text: "kubeadm's records in the cluster differ", remedy: j.apply(), does: "writes them again"})
	}
	if g.bundle != "" {
		j.add(finding{kind: "bundle", text: "the bundle at hand is not the one that the cluster was built with", remedy: j.apply() + " --consent " + g.bundle, does: "takes it"})
	}
}

// notes adds remarks about a healthy cluster.
func (j *judgement) notes() {
	name := j.s.Name
	if j.g.soaking != "" {
		j.add(finding{kind: "soaking", text: j.g.soaking, remedy: "naupegos upgrade " + name + " --finish", does: "finishes the upgrade; --back goes back"})
	}
	if j.g.held != "" {
		j.add(finding{kind: "rotation-held", text: j.g.held, remedy: "naupegos certs rotate " + name + " --finish", does: "ends the trust in the old ones"})
	}
	if j.g.newer {
		j.add(finding{kind: "newer-bundle", text: "a newer bundle of Kubernetes " + j.s.Kubernetes + " is here", remedy: j.apply() + " --consent other-bundle", does: "takes it"})
	}
}
