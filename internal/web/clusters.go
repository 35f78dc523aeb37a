package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

// clusterRow is a cluster in the list.
type clusterRow struct {
	Name, Provider, Kubernetes string
	Created                    time.Time
	Busy                       string // the verb that runs
	Last                       *plan.RunRecord
	Paused                     bool // after a machine, as somebody asked
}

// does is what is being done with the cluster, or paused.
func (c *clusterRow) does() string {
	if c.Busy == "" && c.Paused {
		return "paused"
	}
	return c.Busy
}

// last is the cluster's last run; without one, none that was ever begun.
func (c *clusterRow) last() plan.RunRecord {
	if c.Last == nil {
		return plan.RunRecord{}
	}
	return *c.Last
}

// clusterColumns are those of the list.
func clusterColumns() []column[clusterRow] {
	return []column[clusterRow]{
		{Text: "Cluster", By: "name", Compare: compared(func(c *clusterRow) string { return c.Name })},
		{Text: "Provider", By: "provider", Compare: compared(func(c *clusterRow) string { return c.Provider })},
		{Text: "Kubernetes", By: "kubernetes", Compare: func(a, b *clusterRow) int { return byNumbers(a.Kubernetes, b.Kubernetes) }},
		{Text: "Created", By: "made", Falls: true, Compare: func(a, b *clusterRow) int { return a.Created.Compare(b.Created) }},
		{Text: "Running", By: "running", Falls: true, Compare: compared((*clusterRow).does)},
		{Text: "Last run", By: "run", Falls: true, Compare: func(a, b *clusterRow) int { return a.last().Started.Compare(b.last().Started) }},
		{Text: "Outcome", By: "outcome", Compare: compared(func(c *clusterRow) string { return string(c.last().Outcome) })},
	}
}

// clustersData is what the list shows.
type clustersData struct {
	Rows  []clusterRow
	Heads []head
}

// clustersPage lists the clusters of the store with what was done last, and what is being done.
func (p *Pages) clustersPage(r *http.Request, who *access.Operator) (*view, error) {
	ctx := r.Context()
	all, err := p.c.Store.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := p.c.Store.Leases(ctx)
	if err != nil {
		return nil, err
	}
	var rows []clusterRow
	for _, c := range all {
		if !who.Sees(c.Name) {
			continue
		}
		row := clusterRow{Name: c.Name, Provider: c.Provider, Kubernetes: env.ReleaseOf(c.Facts), Created: c.CreatedAt, Busy: verbOn(leases, c.ID)}
		runs, err := p.c.Store.Runs(ctx, c.Name, recent)
		if err != nil {
			return nil, err
		}
		row.Paused = pauseOf(runs) != nil
		if len(runs) > 0 {
			runs[0].Steps = nil
			row.Last = &runs[0]
		}
		rows = append(rows, row)
	}
	order := orderOf(r.URL, "name", clusterColumns())
	arrange(rows, order, clusterColumns())
	return &view{name: "clusters", Title: "Clusters", Command: "naupegos status", Live: liveOf(r), Data: clustersData{rows, headsOf(r.URL, order, clusterColumns())}}, nil
}

// verbOn is what is being done with a cluster; empty: nothing.
func verbOn(leases []store.LeaseInfo, id string) string {
	i := slices.IndexFunc(leases, func(l store.LeaseInfo) bool { return l.ClusterID == id && l.Alive != "no" })
	if i < 0 {
		return ""
	}
	return leases[i].Title
}

// clusterData is what a cluster's page shows.
type clusterData struct {
	Name, Provider, Document string
	Lease                    *store.LeaseInfo
	Status                   *report.Status
	StatusErr                string
	Standing                 []string // what is under way with it, or noteworthy, for people
	Later                    string   // where the page gets its status from once it is shown; empty: it has it, or not at all
	Drawn                    *topology
	Runs                     []plan.RunRecord
	RunHeads                 []head
	Jobs                     []store.Job
	Duties                   []store.Duty // what servers do unasked
	MayChange                bool
	Paused                   *plan.RunRecord // after which the cluster waits for somebody to go on; nil: it does not
	Pauses                   string          // after which machine
	Again                    *again          // goes on; nil: whoever looks may not
}

// looking bounds how long a page waits for a cluster to show its health.
const looking = 15 * time.Second

// clusterPage shows one cluster: what it is now, its document, and its runs.
func (p *Pages) clusterPage(r *http.Request, who *access.Operator) (*view, error) {
	ctx, name := r.Context(), r.PathValue("name")
	c, err := p.c.Store.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	d := clusterData{Name: name, Provider: c.Provider, Document: string(c.Document)}
	if d.Runs, err = p.c.Store.Runs(ctx, name, recent); err != nil {
		return nil, err
	}
	for i := range d.Runs {
		d.Runs[i].Steps = nil
	}
	if d.Jobs, err = p.c.Store.Jobs(ctx, name, 10); err != nil {
		return nil, err
	}
	if d.Duties, err = p.c.Store.Duties(ctx, name); err != nil {
		return nil, err
	}
	d.MayChange = who.May(server.Operate, name) == nil
	if d.Paused = pauseOf(d.Runs); d.Paused != nil {
		d.Pauses = operate.PausedAfter(d.Paused)
		if d.MayChange {
			d.Again = goOn(name)
		}
	}
	order := orderOf(r.URL, "started", runColumns())
	arrange(d.Runs, order, runColumns()) // now that it was asked which is the last one
	d.RunHeads = headsOf(r.URL, order, runColumns())
	leases, err := p.c.Store.Leases(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(leases, func(l store.LeaseInfo) bool { return l.ClusterID == c.ID && l.Alive != "no" }); i >= 0 {
		d.Lease = &leases[i]
		d.Lease.Heartbeat, d.Lease.Expires = time.Time{}, time.Time{} // they change all the time
	}
	live := liveOf(r)
	if r.URL.Query().Get("look") != "" { // it takes seconds: only who wants it waits for it
		live = ""
		asked, cancel := context.WithTimeout(ctx, looking)
		defer cancel()
		if d.Status, err = p.observe(asked, name); err != nil {
			d.StatusErr = err.Error()
		} else {
			d.Drawn, d.Standing = draw(d.Status), standing(d.Status)
		}
	} else {
		d.Later = r.URL.Path + "?look=yes"
	}
	return &view{name: "cluster", Title: name, Command: "naupegos status " + quote(name) + "\nnaupegos history " + quote(name) + "\nnaupegos document " + quote(name), Live: live, Data: d}, nil
}

// standing is what there is to say of a cluster beside its machines.
func standing(s *report.Status) (all []string) {
	for _, f := range []struct{ what, is string }{{"Upgrade", s.Upgrade}, {"Rotation", s.Rotation}, {"Reset", s.Reset}, {"Bundle", s.BundleNote}} {
		if f.is != "" {
			all = append(all, f.what+": "+f.is)
		}
	}
	for _, tried := range s.Repairs {
		all = append(all, "Repair: "+tried)
	}
	return all
}

// lookAt looks at a cluster now.
func (p *Pages) lookAt(ctx context.Context, name string) (*report.Status, error) {
	st, err := p.c.Open(ctx)
	if err != nil {
		return nil, err
	}
	s, _, err := operate.OpenNamed(ctx, st, name, p.c.Look(name))
	if err != nil {
		return nil, err
	}
	status, err := s.Cluster.Status(ctx)
	return status, s.CloseWith(err)
}

// topology is what a page draws, row below row: a cluster with its gateways, control plane and workers by pool, or the steps of a run.
type topology struct {
	Boxes         []box
	Wires         [][4]int
	Width, Height int
}

// box is a machine, the endpoint, or a step.
type box struct {
	X, Y               int
	Name, Under, Class string
	Hover              string
}

// Width and Height are those of every box, for the template.
func (box) Width() int  { return boxWidth }
func (box) Height() int { return boxHeight }

// Sizes of the drawing, in SVG units.
const (
	boxWidth, boxHeight = 196, 44
	boxGap, rowGap      = 16, 40
)

// draw arranges the machines of a cluster.
func draw(s *report.Status) *topology {
	rows := map[string][]report.MachineStatus{}
	for _, m := range s.Machines {
		rows[m.Role] = append(rows[m.Role], m)
	}
	t := &topology{}
	var above []box
	y := 8
	put := func(all []box) {
		if len(all) == 0 {
			return
		}
		const perRow = 5
		for i := range all {
			all[i].X, all[i].Y = 8+(i%perRow)*(boxWidth+boxGap), y+(i/perRow)*(boxHeight+boxGap)
			t.Width = max(t.Width, all[i].X+boxWidth+8)
			for _, a := range above {
				t.Wires = append(t.Wires, [4]int{a.X + boxWidth/2, a.Y + boxHeight, all[i].X + boxWidth/2, all[i].Y})
			}
		}
		t.Boxes = append(t.Boxes, all...)
		last := all[len(all)-1]
		y, above = last.Y+boxHeight+rowGap, all[:min(len(all), 3)]
		t.Height = last.Y + boxHeight + 8
	}
	api := "bad"
	if s.API == "ready" {
		api = "ok"
	}
	put([]box{{Name: "endpoint", Under: s.Endpoint, Class: api, Hover: "API: " + s.API}})
	for _, role := range []string{"gateway", "control-plane", "worker"} {
		var all []box
		for _, m := range rows[role] {
			all = append(all, boxOf(m))
		}
		put(all)
	}
	return t
}

// boxOf is a machine in the drawing.
func boxOf(m report.MachineStatus) box {
	b := box{Name: short(m.Name), Under: m.Address, Class: "ok"}
	if m.Pool != "" && m.Pool != m.Role && m.Address != "" {
		b.Under = short(m.Pool + " · " + m.Address)
	}
	switch {
	case m.State != "running":
		b.Class, b.Under = "bad", m.State
	case m.Config != "up to date" || (m.Node != "" && !strings.HasPrefix(m.Node, "Ready")):
		b.Class = "warn"
	}
	var about []string
	for _, f := range []struct{ name, value string }{{"machine", m.Name}, {"address", m.Address}, {"pool", m.Pool}, {"state", m.State}, {"configuration", m.Config}, {"node", m.Node}, {"version", m.Version}, {"etcd", m.Etcd}} {
		if f.value != "" {
			about = append(about, f.name+": "+f.value)
		}
	}
	b.Hover = strings.Join(about, "\n")
	return b
}
