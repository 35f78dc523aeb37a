package web

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// runData is the data of a run's page.
type runData struct {
	Run     plan.RunRecord
	Done    int
	Picture template.HTML `json:"-"`
	Graph   *topology     `json:"-"` // nil: see graphOf
	Pauses  string        // machine after which the run pauses, or has paused; empty: none
	Again   *again        // plans the rest after the pause; nil: it was continued, or the reader may not
}

// runPage shows a run as a timeline, live while it runs.
func (p *Pages) runPage(r *http.Request, who *access.Operator) (*view, error) {
	run, err := who.View(p.c.Store).Run(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	d := runData{Run: *run, Done: done(*run), Graph: graphOf(*run), Pauses: operate.PausedAfter(run)}
	if d.Picture, err = picture(*run); err != nil {
		return nil, err
	}
	live := ""
	if run.Outcome == plan.OutcomeRunning {
		live = liveOf(r)
	} else if d.Pauses != "" && who.May(server.Operate, run.Cluster) == nil {
		runs, err := who.View(p.c.Store).Runs(r.Context(), run.Cluster, recent)
		if err != nil {
			return nil, err
		}
		if now := pauseOf(runs); now != nil && now.ID == run.ID {
			d.Again = goOn(run.Cluster)
		}
	}
	return &view{name: "run", Title: run.Heading(), Command: "naupegos history " + quote(run.Cluster) + " " + run.ID, Live: live, Data: d}, nil
}

// recent is the number of a cluster's runs that lists show and that pauseOf looks through.
const recent = 20

// done counts the ended steps of a run.
func done(run plan.RunRecord) (n int) {
	for i := range run.Steps {
		if run.Steps[i].State.Final() {
			n++
		}
	}
	return n
}

// picture draws a run as a timeline.
func picture(run plan.RunRecord) (template.HTML, error) {
	if run.Outcome == plan.OutcomeRunning {
		run.Ended = time.Now() // draw running steps until now
	}
	var b bytes.Buffer
	err := show.WritePicture(&b, run)
	return template.HTML(b.String()), err //nolint:gosec // drawn by a template that escapes what it is given
}

// runColumns returns the columns of a cluster's runs.
func runColumns() []column[plan.RunRecord] {
	return []column[plan.RunRecord]{
		{Text: "Run", By: "run", Compare: compared(func(r *plan.RunRecord) string { return r.Title })},
		{Text: "By", By: "by", Compare: compared(func(r *plan.RunRecord) string { return r.By })},
		{Text: "Started", By: "started", Falls: true, Compare: func(a, b *plan.RunRecord) int { return a.Started.Compare(b.Started) }},
		{Text: "Took"},
		{Text: "Outcome", By: "outcome", Compare: compared(func(r *plan.RunRecord) string { return string(r.Outcome) })},
	}
}

// backupRow is a cluster's backups as the journal knows them, without a look at the backup's location.
type backupRow struct {
	Cluster string
	Made    time.Time        // end of the last run that made one; zero: none in the journal
	Runs    []plan.RunRecord // that made, proved or restored one, the newest first
	Proven  string           // ID of the last backup that a rehearsal proved; empty: none in the journal
	At      time.Time        // when it was proved
	By      string           // ID of the run that proved it
}

// backupsPage lists runs about backups, by cluster.
func (p *Pages) backupsPage(r *http.Request, who *access.Operator) (*view, error) {
	all, err := p.c.Store.Clusters(r.Context())
	if err != nil {
		return nil, err
	}
	var rows []backupRow
	for _, c := range all {
		if !who.Sees(c.Name) {
			continue
		}
		runs, err := who.View(p.c.Store).Runs(r.Context(), c.Name, 200)
		if err != nil {
			return nil, err
		}
		row := backupRow{Cluster: c.Name}
		for _, run := range runs {
			if row.Made.IsZero() {
				row.Made = ended(run, backups.BackupStep)
			}
			if id := provenBy(run); id != "" && row.Proven == "" {
				row.Proven, row.At, row.By = id, run.Ended, run.ID
			}
			if about := strings.HasPrefix(run.Verb, "backup") || slices.ContainsFunc(run.Steps, func(s plan.StepRecord) bool { return strings.HasPrefix(s.ID, "backup") }); about && len(row.Runs) < 10 {
				run.Steps = nil
				row.Runs = append(row.Runs, run)
			}
		}
		rows = append(rows, row)
	}
	return &view{name: "backups", Title: "Backups", Command: "naupegos backup list CLUSTER\nnaupegos backup rehearse CLUSTER", Live: liveOf(r), Data: rows}, nil
}

// ended returns when a step of a run succeeded; zero if it did not.
func ended(run plan.RunRecord, id string) time.Time {
	for _, s := range run.Steps {
		if s.ID == id && s.State == plan.Succeeded {
			return s.Ended
		}
	}
	return time.Time{}
}

// provenBy returns the ID of the backup that a run proved, or "".
func provenBy(run plan.RunRecord) string {
	for _, s := range run.Steps {
		if id, ok := strings.CutPrefix(s.ID, operate.RehearseStep); ok && s.State == plan.Succeeded {
			return id
		}
	}
	return ""
}

// wavesData is the data of the page about updates of machines: their progress, and the holders of leases and reboot slots.
type wavesData struct {
	Pools   []poolRow
	Halted  []haltedRow
	Leases  []leaseRow
	Holders []metal.Slot
	Heads   []head // of the list of pools
	More    int    // machines beyond the limit, which are not counted
}

// haltedRow is a cluster with a last run that did not succeed.
type haltedRow struct {
	Cluster, ID, Title string
	Outcome            plan.Outcome
	Ended              time.Time
	Step, Why          string // the failed step and its error; empty if the run stopped between steps
	Left               int    // number of steps that did not run
}

// leaseRow is the holder of a cluster's lease.
type leaseRow struct {
	Cluster, Title, Holder string
	Acquired               time.Time
	Now                    []string // the running steps
	Run                    string   // ID of the run; empty: none has begun
}

// poolRow is a pool of a cluster, with counts of its machines.
type poolRow struct {
	Cluster, Pool                             string
	Total, Current, Outdated, Unknown, Failed int
}

// poolColumns returns the columns of the list of pools.
func poolColumns() []column[poolRow] {
	return []column[poolRow]{
		{Text: "Pool", By: "pool", Compare: compared(func(p *poolRow) string { return p.Cluster + "\x00" + p.Pool })},
		{Text: "Machines", By: "machines", Falls: true, Compare: compared(func(p *poolRow) int { return p.Total })},
		{Text: "Up to date", By: "current", Falls: true, Compare: compared(func(p *poolRow) int { return p.Current })},
		{Text: "Outdated", By: "outdated", Falls: true, Compare: compared(func(p *poolRow) int { return p.Outdated })},
		{Text: "Unknown", By: "unknown", Falls: true, Compare: compared(func(p *poolRow) int { return p.Unknown })},
		{Text: "Failed", By: "failed", Falls: true, Compare: compared(func(p *poolRow) int { return p.Failed })},
	}
}

// mostInWaves limits the machines that the page of waves counts.
const mostInWaves = 20000

// wavesPage shows the progress of updates, by pool.
func (p *Pages) wavesPage(r *http.Request, _ *access.Operator) (*view, error) {
	found, total, err := p.c.Machines.Find(r.Context(), metal.Query{Limit: mostInWaves})
	if err != nil {
		return nil, err
	}
	pools := map[[2]string]*poolRow{}
	for i := range found {
		m := &found[i]
		if m.Claim.Cluster == "" {
			continue
		}
		key := [2]string{m.Claim.Cluster, m.Claim.Pool}
		if pools[key] == nil {
			pools[key] = &poolRow{Cluster: key[0], Pool: key[1]}
		}
		row := pools[key]
		row.Total++
		switch is, known := m.UpToDate(); {
		case registry.State(m.State) == registry.Failed:
			row.Failed++
		case !known:
			row.Unknown++
		case is:
			row.Current++
		default:
			row.Outdated++
		}
	}
	d := wavesData{More: total - len(found)}
	for _, row := range pools {
		d.Pools = append(d.Pools, *row)
	}
	order := orderOf(r.URL, "pool", poolColumns())
	arrange(d.Pools, "pool", poolColumns()) // ties have a fixed order then
	arrange(d.Pools, order, poolColumns())
	d.Heads = headsOf(r.URL, order, poolColumns())
	if d.Holders, err = p.c.Machines.Holders(r.Context()); err != nil {
		return nil, err
	}
	if err := p.disruptions(r.Context(), &d); err != nil {
		return nil, err
	}
	return &view{name: "waves", Title: "Waves", Command: "naupegos machine list\nnaupegos machine unlock GROUP HOLDER", Live: liveOf(r), Data: d}, nil
}

// disruptions adds the holders of cluster leases, and the clusters with a last run that did not succeed.
func (p *Pages) disruptions(ctx context.Context, d *wavesData) error {
	all, err := p.c.Store.Clusters(ctx)
	if err != nil {
		return err
	}
	last := map[string]*plan.RunRecord{} // by cluster
	for _, c := range all {
		runs, err := p.c.Store.Runs(ctx, c.Name, 1)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			continue
		}
		last[c.Name] = &runs[0]
		if runs[0].Outcome != plan.OutcomeSucceeded && runs[0].Outcome != plan.OutcomeRunning {
			d.Halted = append(d.Halted, haltedOf(&runs[0]))
		}
	}
	leases, err := p.c.Store.Leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range leases {
		if l.Alive != "no" {
			d.Leases = append(d.Leases, leaseRow{l.Cluster, l.Title, l.By, l.Acquired, nil, ""})
			d.Leases[len(d.Leases)-1].at(last[l.Cluster])
		}
	}
	return nil
}

// at adds the run of the lease's holder and its running steps, if it has begun.
func (l *leaseRow) at(run *plan.RunRecord) {
	if run == nil || run.Outcome != plan.OutcomeRunning {
		return
	}
	l.Run = run.ID
	for _, s := range run.Steps {
		if s.State == plan.Running || s.State == plan.Retrying {
			l.Now = append(l.Now, s.Title)
		}
	}
}

func haltedOf(run *plan.RunRecord) haltedRow {
	h := haltedRow{Cluster: run.Cluster, ID: run.ID, Title: run.Title, Outcome: run.Outcome, Ended: run.Ended}
	for _, s := range run.Steps {
		switch {
		case s.State == plan.Failed && h.Step == "":
			h.Step, h.Why = s.Title, s.Err
		case s.State != plan.Succeeded && s.State != plan.Failed:
			h.Left++
		}
	}
	return h
}

// auditData is the data of the audit page.
type auditData struct {
	Entries       []store.AuditEntry
	Text, Order   string // Order: preserved by the search form
	Heads         []head
	Before, After string
}

// auditColumns returns the columns of the audit. The store sorts it.
func auditColumns() []column[store.AuditEntry] {
	return []column[store.AuditEntry]{{Text: "When", By: "when", Falls: true}, {Text: "Who"}, {Text: "Via"}, {Text: "From"}, {Text: "What"}, {Text: "Cluster"}, {Text: "Outcome"}}
}

// auditPage lists the entries of the audit.
func (p *Pages) auditPage(r *http.Request, _ *access.Operator) (*view, error) {
	q := r.URL.Query()
	page, _ := strconv.Atoi(q.Get("page")) // an invalid number means the first page
	page = min(max(page, 1), 1_000_000)
	d := auditData{Text: strings.TrimSpace(q.Get("text")), Order: orderOf(r.URL, "when", auditColumns())}
	d.Heads = headsOf(r.URL, d.Order, auditColumns())
	all, err := p.c.Store.Audit(r.Context(), store.AuditQuery{Text: d.Text, Oldest: d.Order == "-when", Limit: inPage + 1, Offset: (page - 1) * inPage})
	if err != nil {
		return nil, err
	}
	d.Entries = all[:min(inPage, len(all))]
	if page > 1 {
		d.Before = with(r.URL, "page", strconv.Itoa(page-1))
	}
	if len(all) > inPage {
		d.After = with(r.URL, "page", strconv.Itoa(page+1))
	}
	return &view{name: "audit", Title: "Audit", Command: "naupegos server audit", Data: d}, nil
}
