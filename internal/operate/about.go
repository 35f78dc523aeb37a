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

// About says what a request does, for the journal, the lease, the audit and people.
type About struct {
	Verb    string
	Title   string // the verb with its arguments, as the command line has them: "node remove demo-general-1"
	Subject string // what it acts on: machines, a pool, a backup; empty: the whole cluster
}

// mostTitle bounds a title, which a request with many machines would exceed.
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

// argued collects the arguments of a request and what it acts on.
type argued struct{ args, subjects []string }

// flag adds a flag that is set.
func (w *argued) flag(name string, set bool) {
	if set {
		w.args = append(w.args, name)
	}
}

// value adds a flag with its value, unless that is empty.
func (w *argued) value(name, value string) {
	if value != "" {
		w.args = append(w.args, name, value)
	}
}

// on adds what the request acts on, which is an argument without a flag as well.
func (w *argued) on(names ...string) {
	for _, name := range names {
		if name != "" {
			w.args, w.subjects = append(w.args, name), append(w.subjects, name)
		}
	}
}

// of adds a flag with what the request acts on.
func (w *argued) of(flag, name string) {
	if name != "" {
		w.args, w.subjects = append(w.args, flag, name), append(w.subjects, name)
	}
}

// arguments says how a title shows each option of Asked, by its name in JSON and in the title's order; nil: the title leaves it out. A test walks the
// verbs' options. Requests have no options that their verb does not take: see check.
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

// argue adds the arguments of an upgrade; releases, as "v1.36.4 → v1.37.2", take the place of the release that it leads to.
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

// about describes the session's request, or the verb of a session without one.
func (s *Session) about() About {
	if s.asked == nil {
		return About{Verb: s.verb, Title: s.verb}
	}
	return s.asked.About()
}

// entitle gives a plan of the session its verb, title and subject, with the stage that it takes the cluster to.
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

// through adds the releases of an upgrade that is under way: in place of the arguments of upgrade, and behind those of any other verb that continues it.
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
