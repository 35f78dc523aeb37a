package operate

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// About describes a request for the journal, the lease, the audit log and people.
type About struct {
	Verb    string
	Title   string // the verb with its arguments, as the command line has them: "node remove demo-general-1"
	Subject string // what the request acts on: machines, a pool, a backup; empty: the whole cluster
}

// mostTitle limits the length of a title, because a request can name many machines.
const mostTitle = 200

// About describes the request by its verb and options.
func (a *Asked) About() About {
	w := &argued{}
	for _, option := range arguments {
		if option.argue != nil {
			option.argue(a, w)
		}
	}
	return a.about(w.args, w.subjects)
}

func (a *Asked) about(args, subjects []string) About {
	title := strings.Join(append([]string{a.Verb}, args...), " ")
	return About{Verb: a.Verb, Title: words.Clip(words.Line(title), mostTitle), Subject: words.Clip(words.Line(strings.Join(subjects, ", ")), mostTitle)}
}

// argued collects the arguments and subjects of a request.
type argued struct{ args, subjects []string }

// flag adds a flag if set is true.
func (w *argued) flag(name string, set bool) {
	if set {
		w.args = append(w.args, name)
	}
}

// value adds a flag with its value, unless the value is empty.
func (w *argued) value(name, value string) {
	if value != "" {
		w.args = append(w.args, name, value)
	}
}

// on adds subjects of the request that are also positional arguments.
func (w *argued) on(names ...string) {
	for _, name := range names {
		if name != "" {
			w.args, w.subjects = append(w.args, name), append(w.subjects, name)
		}
	}
}

// of adds a flag whose value is a subject of the request.
func (w *argued) of(flag, name string) {
	if name != "" {
		w.args, w.subjects = append(w.args, flag, name), append(w.subjects, name)
	}
}

// arguments says how a title shows each option of Asked: by its name in JSON, in the order of the title. Options with a nil argue are left out. A
// test compares the table with the verbs' options; check has refused options that the verb does not take.
var arguments = []struct {
	option string
	argue  func(a *Asked, w *argued)
}{
	{"document", nil}, {"from", nil}, {"clusterID", nil}, {"seconds", nil}, {"taken", nil},
	{"only", func(a *Asked, w *argued) {
		var parts []string
		for _, p := range a.Only {
			parts = append(parts, string(p))
		}
		w.of("--only", strings.Join(parts, ","))
	}},
	{"newBundle", func(a *Asked, w *argued) { w.flag("--consent "+env.ConsentBundle, a.NewBundle) }},
	{"keepVolumes", func(a *Asked, w *argued) { w.flag("--keep-volumes", a.KeepVolumes) }},
	{"machine", func(a *Asked, w *argued) {
		if a.Verb == recoverEtcd {
			w.of("--from", a.Machine)
		} else {
			w.on(a.Machine)
		}
	}},
	{"machines", func(a *Asked, w *argued) { w.on(a.Machines...) }},
	{"grow", func(a *Asked, w *argued) { a.Grow.argue(w) }},
	{"drain", func(a *Asked, w *argued) { a.Drain.argue(w) }},
	{"upgrade", func(a *Asked, w *argued) { a.Upgrade.argue(w, "") }},
	{"update", func(a *Asked, w *argued) { a.Update.argue(w) }},
	{"rotate", func(a *Asked, w *argued) { a.Rotate.argue(w) }},
	{"backup", func(a *Asked, w *argued) {
		if a.Verb == restoreBackup {
			w.of("--from", a.Backup)
		} else {
			w.on(a.Backup)
		}
	}},
	{"restore", func(a *Asked, w *argued) {
		if r := a.Restore; r != nil {
			w.flag("--new-identity", r.New)
			w.value("--of", r.Of)
			w.flag("--consent "+backups.ConsentRestore, r.Living)
		}
	}},
	{"import", func(a *Asked, w *argued) {
		if a.Import != nil {
			w.of("--from", a.Import.From)
		}
	}},
}

func (g *Grow) argue(w *argued) {
	switch {
	case g == nil:
		return
	case g.ControlPlane:
		w.flag("--control-plane", true)
		w.subjects = append(w.subjects, "control plane")
	default:
		w.of("--pool", g.Pool)
	}
	w.value("--count", fmt.Sprint(g.Count))
}

func (d *Drain) argue(w *argued) {
	if d == nil {
		return
	}
	w.flag("--delete-emptydir-data", d.DeleteEmptyDir)
	w.flag("--force", d.Force)
}

// argue adds the arguments of an upgrade. A non-empty releases, such as "v1.36.4 → v1.37.2", replaces the target release.
func (u *Upgrade) argue(w *argued, releases string) {
	if u == nil {
		return
	}
	w.of("--pool", u.Pool)
	w.flag("--finish", u.Finish)
	w.flag("--back", u.Back)
	if releases == "" {
		w.value("--to", u.To)
	} else {
		w.args = append(w.args, releases)
	}
	w.value("--pause-after", u.PauseAfter)
}

func (u *Update) argue(w *argued) {
	if u == nil {
		return
	}
	w.flag("--reboot-only", u.RebootOnly)
	w.of("--pool", u.Pool)
	w.of("--machine", u.Machine)
	w.flag("--now", u.Now)
}

func (r *Rotate) argue(w *argued) {
	if r == nil {
		return
	}
	w.flag("--all", r.All)
	w.flag("--authorities", r.Authorities)
	w.flag("--service-account", r.ServiceAccount)
	w.flag("--ssh", r.SSH)
	w.flag("--encryption", r.Encryption)
	w.flag("--wireguard", r.WireGuard)
	w.flag("--cloud-credential", r.CloudCredential)
	w.flag("--without-access-rules", r.Unbounded)
	w.flag("--hold", r.Hold)
	w.flag("--finish", r.Finish)
	w.flag("--abandon", r.Abandon)
}

// about describes the session's request or, if it has none, its verb.
func (s *Session) about() About {
	if s.asked == nil {
		return About{Verb: s.verb, Title: s.verb}
	}
	return s.asked.About()
}

// entitle sets the verb, title and subject of a plan of the session. The title includes the stage to which the plan takes the cluster.
func (s *Session) entitle(p *plan.Plan) {
	about, releases, stage := s.about(), "", ""
	if about.Verb == "" { // the session only looks
		return
	}
	if s.Cluster != nil {
		releases, stage = s.Cluster.Course()
	}
	if releases != "" {
		about = s.asked.through(about, releases)
	}
	if s.subject != "" && s.subject != about.Subject {
		about.Title, about.Subject = about.Title+" "+s.subject, s.subject
	}
	if s.remark != "" {
		about.Title += " " + s.remark
	}
	if stage != "" {
		about.Title += ", " + stage
	}
	p.Verb, p.Title, p.Subject = about.Verb, about.Title, about.Subject
}

// through adds the releases of an unfinished upgrade: instead of the target release for the verb upgrade, and at the end of the title for any other
// verb.
func (a *Asked) through(about About, releases string) About {
	if a == nil || a.Upgrade == nil {
		about.Title += ", upgrade " + releases
		return about
	}
	w := &argued{}
	a.Upgrade.argue(w, releases)
	with := a.about(w.args, w.subjects)
	with.Subject = cmp.Or(with.Subject, about.Subject)
	return with
}
