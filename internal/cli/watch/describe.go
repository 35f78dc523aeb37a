package watch

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Host holds the parts of the operator's command that these commands need.
type Host struct {
	Out      io.Writer
	Screen   func() Screen
	Describe func(ctx context.Context, cluster string, in operate.Subject) (*operate.Description, error)
	Events   func(ctx context.Context, cluster string, in operate.EventsOf) (*operate.EventList, error)
}

// NewDescribe returns naupegos describe.
func NewDescribe(h Host) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "describe NAME [MACHINE]",
		Short: "Show everything known about a cluster, or about one machine, node or backup",
		Long: `Show on one screen everything known about a cluster: its state with all causes, machines, nodes with their conditions,
pods and resources, certificates, etcd members, the last runs and the events of the last hour. With the name of a
machine or node, or the ID of a backup, show everything known about that.

What can't be asked, because a machine or the API does not answer, is named at the end; the rest is shown all the same.`,
		Example: "  naupegos describe demo\n  naupegos describe demo demo-cp-1\n  naupegos describe demo 20261128-130501\n  naupegos describe demo demo-cp-1 -o yaml",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := operate.Subject{}
			if len(args) > 1 {
				in.Name = args[1]
			}
			d, err := h.Describe(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return out.Print(h.Out, d, func(w io.Writer) error { return h.Screen().Describe(w, d, time.Now()) })
		},
	}
	out.Bind(c)
	return c
}

// Describe writes a description.
func (s Screen) Describe(w io.Writer, d *operate.Description, now time.Time) error {
	p := &page{s: s, w: w, now: now}
	switch {
	case d.Backup != nil:
		p.backup(d.Backup)
	case d.Subject != "":
		p.machine(d)
	default:
		p.cluster(d)
	}
	p.runs(d.Runs)
	p.events(d.Events)
	p.list("Not asked", d.Problems)
	return p.err
}

// page writes sections; it keeps the first error.
type page struct {
	s   Screen
	w   io.Writer
	now time.Time
	err error
}

func (p *page) do(f func() error) {
	if p.err == nil {
		p.err = f()
	}
}

func (p *page) facts(all ...fact) { p.do(func() error { return p.s.facts(p.w, "", all) }) }

func (p *page) head(title string) {
	p.do(func() error { _, err := fmt.Fprintf(p.w, "\n%s\n", title); return err })
}

func (p *page) table(title string, columns []column, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.head(title)
	p.do(func() error {
		narrow := p.s
		narrow.Width -= 2
		return narrow.table(&indented{w: p.w}, columns, rows)
	})
}

func (p *page) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.head(title)
	for _, l := range lines {
		p.do(func() error { return p.s.paragraph(p.w, "  ", "    ", words.Line(l)) })
	}
}

// indented writes lines indented by two columns. Each Write holds whole lines.
type indented struct{ w io.Writer }

// Write implements io.Writer.
func (i *indented) Write(b []byte) (int, error) {
	if _, err := io.WriteString(i.w, "  "); err != nil {
		return 0, err
	}
	return i.w.Write(b)
}

func (p *page) cluster(d *operate.Description) {
	p.do(func() error { return p.s.Status(p.w, d.Status, p.now) })
	st := d.Status
	if q := st.Quorum; q != nil {
		rows := [][]string{}
		for _, m := range st.Machines {
			if m.Member != nil {
				rows = append(rows, []string{m.Name, m.Etcd, m.Member.Version, size(m.Member.DB), size(m.Member.InUse), fmt.Sprint(m.Member.Lag)})
			}
		}
		p.table(fmt.Sprintf("etcd: %d of %d voters healthy, %d needed, tolerates %s", q.Healthy, q.Voters, q.Needed, words.Count(q.Tolerates, "failure", "failures")),
			[]column{{head: "MEMBER"}, {head: "STATE", tint: stateColor}, {head: "VERSION", keep: 1}, {head: "SIZE"}, {head: "IN USE", keep: 2}, {head: "LAG"}}, rows)
	}
	p.nodes(d.Nodes)
	p.certificates(d, 5)
	p.facts(fact{"\nID", st.ID}, fact{"Bundle", st.Bundle}, fact{"Document", st.DocumentFile})
}

func (p *page) nodes(all []kube.NodeLoad) {
	rows := [][]string{}
	for _, n := range all {
		rows = append(rows, []string{n.Node, fmt.Sprintf("%d/%d", n.PodsReady, n.Pods), fmt.Sprint(n.PodLimit), cores(n.CPUAsked) + "/" + cores(n.CPU), size(n.MemoryAsked) + "/" + size(n.Memory), n.Runtime, pressed(n.Conditions)})
	}
	p.table("Nodes", []column{{head: "NODE"}, {head: "PODS READY"}, {head: "POD LIMIT", keep: 2}, {head: "CPU REQUESTED"}, {head: "MEMORY REQUESTED"}, {head: "RUNTIME", keep: 1}, {head: "CONDITIONS", keep: 3}}, rows)
}

// pressed lists the conditions that differ from a healthy node's.
func pressed(all []kube.Condition) string {
	var odd []string
	for _, c := range all {
		if good := c.Type == "Ready" && c.Status == "True" || c.Type != "Ready" && c.Status == "False"; !good {
			odd = append(odd, c.Type+"="+c.Status)
		}
	}
	return strings.Join(odd, ",")
}

func (p *page) certificates(d *operate.Description, most int) {
	certs := slices.Clone(d.Certificates)
	slices.SortStableFunc(certs, func(a, b pki.CertInfo) int { return a.NotAfter.Compare(b.NotAfter) })
	title := "Certificates"
	if len(certs) > most {
		title = fmt.Sprintf("Certificates: the first %d of %d to expire (naupegos certs list %s)", most, len(certs), d.Status.Name)
		certs = certs[:most]
	}
	rows := [][]string{}
	for _, c := range certs {
		rows = append(rows, []string{c.Name, c.NotAfter.Local().Format(time.DateOnly), words.Count(int(c.NotAfter.Sub(p.now).Hours()/24), "day", "days"), c.Authority})
	}
	p.table(title, []column{{head: "CERTIFICATE"}, {head: "EXPIRES"}, {head: "IN"}, {head: "AUTHORITY", keep: 1}}, rows)
}

func (p *page) machine(d *operate.Description) {
	facts := []fact{{"Name", d.Subject}, {"Cluster", d.Status.Name}}
	if m := d.Machine; m != nil {
		facts = append(facts, fact{"Role", m.Role}, fact{"Pool", m.Pool}, fact{"Address", m.Address}, fact{"State", p.s.paint(stateColor(m.State), words.Line(m.State))})
		if v := d.Provided; v != nil {
			facts = append(facts, fact{"Public address", v.Public}, fact{"Zone", v.Zone}, fact{"Provider's ID", v.ID}, fact{"SSH user", v.User}, fact{"Detail", v.Detail})
		}
		facts = append(facts, fact{"Configuration", m.Config}, fact{"Problem", m.Problem}, fact{"Node", output.Dash(m.Node)}, fact{"Kubelet", m.Version}, fact{"etcd", m.Etcd})
		if e := m.Member; e != nil {
			facts = append(facts, fact{"etcd member", fmt.Sprintf("%s on disk, %s in use, %s behind, version %s", size(e.DB), size(e.InUse), words.Count(int(e.Lag), "entry", "entries"), output.Dash(e.Version))})
		}
	}
	p.plain(facts)
	for _, n := range d.Nodes {
		p.load(n)
	}
	if u := d.Units; u != nil {
		rows := [][]string{}
		for _, unit := range slices.Sorted(maps.Keys(u.Since)) {
			rows = append(rows, []string{unit, "running", u.Since[unit].Local().Format(time.DateTime)})
		}
		for _, unit := range slices.Sorted(maps.Keys(u.Down)) {
			rows = append(rows, []string{unit, u.Down[unit], ""})
		}
		p.table("Units", []column{{head: "UNIT"}, {head: "STATE", tint: stateColor}, {head: "SINCE"}}, rows)
	}
	if m := d.Machine; m != nil {
		rows := [][]string{}
		for _, x := range m.Differs {
			rows = append(rows, []string{x.Kind, x.Name, x.Action, x.Why})
		}
		title := "Differs from the document"
		if m.Changes != nil && *m.Changes > len(m.Differs) {
			title += fmt.Sprintf(", the first %d of %d", len(m.Differs), *m.Changes)
		}
		p.table(title, []column{{head: "KIND"}, {head: "NAME"}, {head: "APPLY DOES"}, {head: "WHY", keep: 1}}, rows)
		p.list("Node differs", m.NodeDiffers)
		p.causes(d.Status, m.Name)
	}
	p.certificates(d, 20)
}

// plain writes facts. It keeps the colours of painted ones, which contain no foreign text.
func (p *page) plain(all []fact) {
	width := 0
	for _, f := range all {
		width = max(width, len(f.label))
	}
	for _, f := range all {
		if f.text == "" {
			continue
		}
		text := f.text
		if !strings.HasSuffix(text, reset) {
			text = words.Line(text)
		}
		first := f.label + strings.Repeat(" ", width-len(f.label)+2)
		p.do(func() error { return p.s.paragraph(p.w, first, strings.Repeat(" ", len(first)), text) })
	}
}

func (p *page) causes(st *report.Status, machine string) {
	var lines []string
	for _, c := range st.Causes {
		if slices.Contains(c.Machines, machine) {
			lines = append(lines, string(c.State)+": "+c.String())
		}
	}
	p.list("Findings", lines)
}

func (p *page) load(n kube.NodeLoad) {
	p.head("Node " + words.Line(n.Node))
	p.do(func() error {
		return p.s.facts(p.w, "  ", []fact{{"System", n.OS}, {"Kernel", n.Kernel}, {"Runtime", n.Runtime},
			{"Pods", fmt.Sprintf("%d of %d, %d ready", n.Pods, n.PodLimit, n.PodsReady)},
			{"CPU", fmt.Sprintf("%s of %s requested", cores(n.CPUAsked), cores(n.CPU))},
			{"Memory", fmt.Sprintf("%s of %s requested", size(n.MemoryAsked), size(n.Memory))},
			{"Taints", strings.Join(n.Taints, ", ")}, {"Labels", labels(n.Labels)}})
	})
	rows := [][]string{}
	for _, c := range n.Conditions {
		rows = append(rows, []string{c.Type, c.Status, ago(p.now, c.Since), c.Reason, c.Text})
	}
	p.table("Conditions", []column{{head: "CONDITION"}, {head: "STATUS"}, {head: "SINCE"}, {head: "REASON"}, {head: "MESSAGE", keep: 1}}, rows)
}

func labels(all map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return strings.Join(out, ", ")
}

func (p *page) backup(b *operate.BackupShown) {
	s := b.Set
	proof := "not proven by a rehearsal"
	if s.Proven() {
		proof = "a rehearsal found it complete"
	}
	p.facts(fact{"Backup", s.ID}, fact{"Cluster", s.Cluster}, fact{"Made", s.CreatedAt.Local().Format(time.DateTime) + ", " + ago(p.now, s.CreatedAt) + " ago"}, fact{"Reason", s.Reason},
		fact{"Kubernetes", s.Kubernetes}, fact{"Size", size(s.Bytes)}, fact{"Where", b.Where}, fact{"Signed by", s.SignedBy}, fact{"Proof", proof}, fact{"Proof's problem", s.ProofProblem},
		fact{"Problem", s.Problem}, fact{"Recipients", strings.Join(s.Recipients, ", ")}, fact{"etcd", fmt.Sprintf("revision %d of member %s", s.Etcd.Revision, output.Dash(s.Etcd.Member))},
		fact{"Restore", "naupegos backup restore " + s.Cluster + " --from " + s.ID})
}

func (p *page) runs(all []operate.RunLine) {
	rows := [][]string{}
	for _, r := range all {
		took := "-"
		if !r.Ended.IsZero() {
			took = r.Ended.Sub(r.Started).Round(100 * time.Millisecond).String()
		}
		rows = append(rows, []string{r.Started.Local().Format(time.DateTime), r.Verb, r.Outcome, took, fmt.Sprint(r.Steps), r.By, r.ID})
	}
	p.table("Last runs", []column{{head: "STARTED"}, {head: "VERB"}, {head: "OUTCOME"}, {head: "TOOK"}, {head: "STEPS", keep: 3}, {head: "BY", keep: 1}, {head: "RUN", keep: 2}}, rows)
}

func (p *page) events(all []kube.Event) {
	rows := [][]string{}
	for _, e := range all {
		rows = append(rows, []string{ago(p.now, e.At), kindOf(e.Warning), e.Reason, e.Object, e.Text})
	}
	p.table("Events of the last hour", eventColumns(), rows)
}

// size renders bytes.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	div, exp := int64(unit), 0
	for m := n / unit; m >= unit; m /= unit {
		div *= unit
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", float64(n)/float64(div), "KMGTPE"[exp])
}

// cores renders thousandths of a processor.
func cores(milli int64) string { return fmt.Sprintf("%.2g", float64(milli)/1000) }

// ago renders an age in its largest unit; "-" if the time is not known.
func ago(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	switch d := max(now.Sub(at), 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
