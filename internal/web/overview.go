package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// tile is a number of the overview, with a link to the counted objects.
type tile struct {
	Number     int
	Text, Note string
	Tone       string
	Href       string
}

// need is a problem that an operator should look at.
type need struct {
	Cause   string
	Since   time.Time `json:"-"`
	Where   string    // cluster or machine
	Href    string
	Button  string // text of the link to a remedy; empty: there is only the command
	Command string
	Tone    string
}

// activity is a run in the list of recent events.
type activity struct {
	ID, Cluster, Text, Tone string
	At                      time.Time
}

// overviewData is the data of the overview.
type overviewData struct {
	Tiles     []tile
	Needs     []need
	More      int // number of needs that are not shown
	Running   []clusterRow
	Activity  []activity
	Empty     bool
	MayCreate bool
}

// Limits of the overview.
const (
	mostNeeds     = 12
	mostActivity  = 12
	soonExpires   = 60 // days
	freshBackup   = 24 * time.Hour
	approvalsPath = "/ui/approvals"
)

// overviewPage shows the problems that need attention.
func (p *Pages) overviewPage(r *http.Request, who *access.Operator) (*view, error) {
	f, err := p.fleet(r.Context(), who)
	if err != nil {
		return nil, err
	}
	d := overviewData{Empty: len(f.Rows) == 0, MayCreate: who.Cluster == "" && who.May(server.Operate, "") == nil}
	waiting, err := waiting(r.Context(), p, who)
	if err != nil {
		return nil, err
	}
	d.count(f, waiting, p.c.Machines != nil && p.metalUsed(r.Context()))
	for i := range f.Rows {
		if row := &f.Rows[i]; row.Busy != "" {
			d.Running = append(d.Running, *row)
		}
		d.Needs = append(d.Needs, needsOf(&f.Rows[i], who.May(server.Operate, f.Rows[i].Name) == nil)...)
	}
	reviews, err := reviewsOf(r.Context(), p, who)
	if err != nil {
		return nil, err
	}
	d.Needs = append(d.Needs, reviews...)
	d.Empty = d.Empty && len(reviews) == 0
	if waiting > 0 {
		d.Needs = append(d.Needs, need{Cause: words.Count(waiting, "machine waits", "machines wait") + " for approval", Href: approvalsPath, Button: "Compare their keys", Command: "naupegos machine list --approval pending", Tone: "warn"})
	}
	slices.SortStableFunc(d.Needs, func(a, b need) int { return worse(b.Tone) - worse(a.Tone) })
	if len(d.Needs) > mostNeeds {
		d.Needs, d.More = d.Needs[:mostNeeds], len(d.Needs)-mostNeeds
	}
	for i := range f.Runs[:min(mostActivity, len(f.Runs))] {
		run := &f.Runs[i]
		d.Activity = append(d.Activity, activity{run.ID, run.Cluster, sentence(run), tone(string(run.Outcome)), run.Started})
	}
	return &view{name: "overview", Title: "Overview", Command: "naupegos status", Live: liveOf(r), Data: d}, nil
}

func worse(tone string) int { return map[string]int{"bad": 2, "warn": 1}[tone] }

// waiting counts the machines that wait for approval.
func waiting(ctx context.Context, p *Pages, who *access.Operator) (int, error) {
	if p.c.Machines == nil || !who.Sees("") {
		return 0, nil
	}
	_, n, err := p.c.Machines.Find(ctx, metal.Query{Approval: string(registry.Pending), Limit: 1})
	return n, err
}

// metalUsed reports whether the store has a physical machine: otherwise the navigation omits the pages about them.
func (p *Pages) metalUsed(ctx context.Context) bool {
	counts, err := p.c.Store.Metal().Counts(ctx)
	for _, n := range counts {
		if n > 0 {
			return true
		}
	}
	return err != nil // if unknown, show them
}

// count fills the tiles.
func (d *overviewData) count(f fleet, waiting int, metal bool) {
	states := map[string]int{}
	var oldest time.Time
	certs, unproven := 0, 0
	for i := range f.Rows {
		row := &f.Rows[i]
		states[row.Health.State]++
		if at := row.Health.Looked; !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
		if days := row.CertificateDays(); days >= 0 && days < soonExpires {
			certs++
		}
		if time.Since(row.Health.Summary.Proven) > freshBackup {
			unproven++
		}
	}
	note := ""
	if !oldest.IsZero() && time.Since(oldest) > stale {
		note = "the oldest look: " + ago(oldest, time.Now())
	}
	for _, s := range []struct{ state, tone string }{{watch.Healthy, "ok"}, {watch.Drifted, "warn"}, {watch.Unhealthy, "bad"}, {watch.Unknown, "dim"}} {
		t := tile{Number: states[s.state], Text: s.state, Tone: s.tone, Href: "/ui/clusters?state=" + s.state}
		if t.Number == 0 {
			t.Tone = "dim"
		}
		if s.state == watch.Unknown {
			t.Note = note
		}
		d.Tiles = append(d.Tiles, t)
	}
	toneIf := func(n int, bad string) string {
		if n > 0 {
			return bad
		}
		return "dim"
	}
	d.Tiles = append(d.Tiles, tile{Number: len(f.Jobs), Text: "running jobs", Tone: toneIf(len(f.Jobs), "live"), Href: "#running"})
	if metal {
		d.Tiles = append(d.Tiles, tile{Number: waiting, Text: "approvals waiting", Tone: toneIf(waiting, "warn"), Href: approvalsPath})
	}
	d.Tiles = append(d.Tiles, tile{Number: certs, Text: "certificates expire within 60 days", Tone: toneIf(certs, "warn"), Href: "/ui/clusters?order=certificate"},
		tile{Number: unproven, Text: "clusters without a proven backup of the last 24 h", Tone: toneIf(unproven, "warn"), Href: "/ui/backups"})
}

// needsOf lists a cluster's needs, the worst first. Only if may is set, they have forms.
func needsOf(c *clusterRow, may bool) (all []need) {
	page := "/ui/clusters/" + c.Name
	act := func(form string) string {
		if !may {
			return page
		}
		return page + "/actions#" + form
	}
	switch c.Health.State {
	case watch.Unhealthy:
		all = append(all, need{Cause: c.Health.Cause, Since: c.Health.Looked, Where: c.Name, Href: page, Button: "Look at it", Command: c.Health.Remedy, Tone: "bad"})
	case watch.Drifted:
		all = append(all, need{Cause: c.Health.Cause, Since: c.Health.Looked, Where: c.Name, Href: page + "/document", Button: "Plan", Command: c.Health.Remedy, Tone: "warn"})
	case watch.Unknown:
		if !c.Health.Looked.IsZero() {
			all = append(all, need{Cause: "does not answer: " + c.Health.Cause, Since: c.Health.Answered, Where: c.Name, Href: page, Button: "What was last known", Command: c.Health.Remedy, Tone: "bad"})
		}
	}
	if last := c.last(); last.Outcome == plan.OutcomeFailed || last.Outcome == plan.OutcomeGone {
		all = append(all, need{Cause: fmt.Sprintf("the last run, %s, ended %s", last.Title, last.Outcome), Since: last.Ended, Where: c.Name, Href: "/ui/runs/" + last.ID, Button: "See why", Command: "naupegos history " + quote(c.Name) + " " + last.ID, Tone: "bad"})
	}
	if run := c.Paused; run != nil {
		all = append(all, need{Cause: run.Title + " has paused after " + operate.PausedAfter(run), Since: run.Ended, Where: c.Name, Href: page, Button: "Continue", Command: goOn(c.Name).Command, Tone: "warn"})
	}
	if days := c.CertificateDays(); days >= 0 && days < 30 {
		all = append(all, need{Cause: fmt.Sprintf("a certificate expires in %d days: %s", days, c.Health.Summary.CertificateOf), Where: c.Name, Href: act("renew"), Button: "Renew", Command: "naupegos renew " + quote(c.Name), Tone: "warn"})
	}
	if !c.Health.Answered.IsZero() && c.Health.Summary.Backup.IsZero() && c.Health.Summary.BackupProblem == "" {
		all = append(all, need{Cause: "there is no backup", Where: c.Name, Href: act("backup"), Button: "Back up", Command: "naupegos backup create " + quote(c.Name), Tone: "warn"})
	} else if at := c.Health.Summary.Backup; !at.IsZero() && time.Since(c.Health.Summary.Proven) > 8*freshBackup {
		all = append(all, need{Cause: "no backup of the last 8 days is proven", Since: at, Where: c.Name, Href: act("backup"), Button: "Rehearse", Command: "naupegos backup rehearse " + quote(c.Name), Tone: "warn"})
	}
	return all
}
