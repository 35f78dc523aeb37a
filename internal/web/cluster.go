package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/store"
)

// clusterHead is the top of each tab of a cluster's page.
type clusterHead struct {
	Name, Provider, Kubernetes string
	Health                     watch.Health
	Old                        bool // Health may be out of date
	Lease                      *store.LeaseInfo
	Jobs                       []store.Job // not ended
	MayChange, MayAdmin        bool
	Paused                     *plan.RunRecord // run after which the cluster is paused; nil: it is not
	Pauses                     string          // machine after which it is paused
	Again                      *again          // continues the cluster; nil: not paused, or the reader may not continue it
	Tabs                       []link
}

// clusterData is the data of a tab; each tab fills the fields that it uses.
type clusterData struct {
	Head     clusterHead
	Status   *report.Status         // last known status; nil: never seen
	Standing []string               // lines about unfinished procedures and repairs
	Machines []report.MachineStatus // on this page of the list
	Paging   paging
	Drawn    *topology
	Duties   []store.Duty // unattended tasks
	Follow   *followData  // its document in Git; nil: it follows none
	Runs     []plan.RunRecord
	RunHeads []head
	Document string
	Form     *documentForm
	Actions  *actionsData
	Certs    *operate.CertificateList
	Backups  *backupsOf
	Figures  *figuresData
	Inside   *insideData // of the tabs for workloads and events
	Later    string      // address of the rest of the page, which the browser requests afterwards; empty: the page is complete
	Problem  string      // why data is missing
}

// tabs are the pages of a cluster; path follows the cluster's name.
var tabs = []struct{ path, text string }{{"", "Overview"}, {"nodes", "Nodes"}, {"figures", "Figures"}, {"workloads", "Workloads"}, {"events", "Events"}, {"runs", "Runs"}, {"backups", "Backups"}, {"certificates", "Certificates"}, {"document", "Document"}, {"actions", "Actions"}}

// textOf returns the text of a tab.
func textOf(tab string) string {
	return tabs[slices.IndexFunc(tabs, func(t struct{ path, text string }) bool { return t.path == tab })].text
}

// clusterTab returns the page of a tab; fill supplies its data.
func clusterTab(p *Pages, tab string, fill func(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (command string, err error)) pageFunc {
	return func(r *http.Request, who *access.Operator) (*view, error) {
		ctx, name := r.Context(), r.PathValue("name")
		c, err := p.c.Store.Cluster(ctx, name)
		if err != nil {
			return nil, err
		}
		var d clusterData
		if d.Head, err = p.head(ctx, who, c, tab); err != nil {
			return nil, err
		}
		d.Status = d.Head.Health.Status
		d.Head.Health.Status = nil
		command, err := fill(p, r, who, c, &d)
		if err != nil {
			return nil, err
		}
		v := &view{name: strings.TrimSuffix("cluster-"+tab, "-"), Title: textOf(tab) + " · " + name, Command: command, Charts: d.Figures != nil, Data: d}
		if r.URL.Query().Get("look") == "" && tab != "document" && tab != "actions" { // input fields must not be replaced
			v.Live = liveOf(r)
		}
		return v, nil
	}
}

// head reads the data of a page's top from the store, without a look at the cluster.
func (p *Pages) head(ctx context.Context, who *access.Operator, c *store.Cluster, tab string) (h clusterHead, err error) {
	h = clusterHead{Name: c.Name, Provider: c.Provider, Kubernetes: env.ReleaseOf(c.Facts), MayChange: who.May(server.Operate, c.Name) == nil, MayAdmin: who.May(server.Admin, c.Name) == nil}
	if h.Health, err = watch.Of(ctx, who.View(p.c.Store), c.ID); err != nil {
		return h, err
	}
	h.Old = isOld(h.Health)
	leases, err := who.View(p.c.Store).Leases(ctx)
	if err != nil {
		return h, err
	}
	if i := slices.IndexFunc(leases, func(l store.LeaseInfo) bool { return l.ClusterID == c.ID && l.Alive != "no" }); i >= 0 {
		h.Lease = &leases[i]
		h.Lease.Heartbeat, h.Lease.Expires = time.Time{}, time.Time{} // they change constantly
	}
	jobs, err := who.View(p.c.Store).Jobs(ctx, c.Name, 10)
	if err != nil {
		return h, err
	}
	h.Jobs = slices.DeleteFunc(jobs, func(j store.Job) bool { return j.State == store.JobEnded })
	runs, err := who.View(p.c.Store).Runs(ctx, c.Name, recent)
	if err != nil {
		return h, err
	}
	if paused := pauseOf(runs); paused != nil {
		h.Paused, h.Pauses = paused, operate.PausedAfter(paused)
		if h.MayChange {
			h.Again = goOn(c.Name)
		}
	}
	for _, t := range tabs {
		if !h.MayChange && slices.Contains([]string{"workloads", "actions"}, t.path) {
			continue
		}
		h.Tabs = append(h.Tabs, link{Href: strings.TrimSuffix("/ui/clusters/"+c.Name+"/"+t.path, "/"), Text: t.text, Here: t.path == tab})
	}
	return h, nil
}

// standing lists facts about a cluster, other than its machines.
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

// The tabs.

func overviewTab(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (_ string, err error) {
	if d.Status != nil {
		d.Drawn, d.Standing = draw(d.Status), standing(d.Status)
	}
	if d.Duties, err = who.View(p.c.Store).Duties(r.Context(), c.Name); err != nil {
		return "", err
	}
	d.Duties = slices.DeleteFunc(d.Duties, func(d store.Duty) bool { return d.Kind == follow.Duty }) // the follow's own part says more
	d.Follow, err = followOf(r.Context(), p, who, c.Name, string(c.Document))
	return "naupegos status " + quote(c.Name), err
}

func nodesTab(_ *Pages, r *http.Request, _ *access.Operator, c *store.Cluster, d *clusterData) (string, error) {
	if d.Status != nil {
		d.Machines, d.Paging = pageOf(r, d.Status.Machines, inPage)
		d.Status = &report.Status{} // data of machines on other pages must not make this page change
	}
	return "naupegos node list " + quote(c.Name), nil
}

func runsTab(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (_ string, err error) {
	if d.Runs, err = who.View(p.c.Store).Runs(r.Context(), c.Name, 2*recent); err != nil {
		return "", err
	}
	for i := range d.Runs {
		d.Runs[i].Steps = nil
	}
	order := orderOf(r.URL, "started", runColumns())
	arrange(d.Runs, order, runColumns())
	d.RunHeads = headsOf(r.URL, order, runColumns())
	return "naupegos history " + quote(c.Name), nil
}

func documentTab(_ *Pages, _ *http.Request, _ *access.Operator, c *store.Cluster, d *clusterData) (string, error) {
	d.Document = string(c.Document)
	d.Form = &documentForm{Action: "/ui/clusters/" + c.Name + "/plan", Text: d.Document, Button: "Plan"}
	return "naupegos document " + quote(c.Name), nil
}

func certificatesTab(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (string, error) {
	var problem string
	d.Certs, problem, d.Later = later(p, r, who, c.Name, operate.Certificates)
	d.Problem = problem
	return "naupegos certs list " + quote(c.Name), nil
}

// backupsOf is the data of the tab for backups.
type backupsOf struct {
	*operate.BackupList
	Newest string // ID of the newest one
}

func backupsTab(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (string, error) {
	list, problem, more := later(p, r, who, c.Name, operate.Backups)
	if d.Problem, d.Later = problem, more; list != nil {
		slices.SortFunc(list.Items, func(a, b *backup.Set) int { return strings.Compare(b.ID, a.ID) })
		d.Backups = &backupsOf{BackupList: list}
		if len(list.Items) > 0 {
			d.Backups.Newest = list.Items[0].ID
		}
	}
	return "naupegos backup list " + quote(c.Name), nil
}

// looking limits how long a page waits for a cluster.
const looking = 20 * time.Second

// later returns a view of a cluster if the request has ?look. Otherwise it returns the address, in more, that the shown page requests for it,
// so that the page appears without waiting for the cluster.
func later[T any](p *Pages, r *http.Request, who *access.Operator, name string, v operate.View[operate.Plainly, T]) (out *T, problem, more string) {
	if r.URL.Query().Get("look") == "" {
		return nil, "", r.URL.Path + "?look=yes"
	}
	ctx, cancel := context.WithTimeout(r.Context(), looking)
	defer cancel()
	out, err := lookAt(ctx, p, who, name, func(s *operate.Session) (*T, error) { return v.See(ctx, s, operate.Plainly{}) })
	if err != nil {
		return nil, who.Told(err).Error(), ""
	}
	return out, "", ""
}

// lookAt opens a session that only observes a cluster, and returns the result of see.
func lookAt[T any](ctx context.Context, p *Pages, who *access.Operator, name string, see func(*operate.Session) (T, error)) (out T, err error) {
	st, err := p.c.Open(ctx)
	if err != nil {
		return out, err
	}
	s, _, err := operate.OpenNamed(ctx, who.View(st), name, p.c.Look(name))
	if err != nil {
		return out, err
	}
	out, err = see(s)
	return out, s.CloseWith(err)
}

// actionsData holds the options that a cluster's forms offer.
type actionsData struct {
	Releases, Machines, Nodes, Workers, Pools []string
}

func actionsTab(_ *Pages, _ *http.Request, _ *access.Operator, c *store.Cluster, d *clusterData) (string, error) {
	a := &actionsData{Releases: upgradesOf(env.ReleaseOf(c.Facts))}
	if doc, err := validation.Parse("the stored document of "+c.Name, c.Document); err == nil {
		for _, pool := range doc.Spec.Workers {
			a.Pools = append(a.Pools, pool.Name)
		}
	}
	if d.Status != nil {
		for i := range d.Status.Machines {
			m := &d.Status.Machines[i]
			a.Machines = append(a.Machines, m.Name)
			if m.Role != "gateway" {
				a.Nodes = append(a.Nodes, m.Name)
			}
			if m.Role == "worker" {
				a.Workers = append(a.Workers, m.Name)
			}
		}
	}
	d.Actions = a
	return "naupegos --help", nil
}

// upgradesOf lists the releases above now, the newest first: at most three minor versions ahead, because an upgrade passes through each.
func upgradesOf(now string) (all []string) {
	for _, v := range release.Versions() {
		if now == "" || release.Compare(v, now) > 0 {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return release.Compare(b, a) })
	return all
}

// machineOf is the data of the page of a cluster's machine.
type machineOf struct {
	Head    clusterHead
	Machine report.MachineStatus
	Tone    string
	Steps   []machineStep
	Metal   string       // UUID of the physical machine; empty: it is not a physical machine
	Node    bool         // it is a node of Kubernetes
	Figures *figuresData // nil: it is no node
}

// machineStep is a step of a run that concerned a machine.
type machineStep struct {
	Run, Verb, Title, State string
	At                      time.Time
}

// mostSteps limits the steps on the page of a machine.
const mostSteps = 20

// clusterMachinePage shows one machine of a cluster, of any provider, with its last known status.
func (p *Pages) clusterMachinePage(r *http.Request, who *access.Operator) (*view, error) {
	ctx, name, machine := r.Context(), r.PathValue("name"), r.PathValue("machine")
	c, err := p.c.Store.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	var d machineOf
	if d.Head, err = p.head(ctx, who, c, "nodes"); err != nil {
		return nil, err
	}
	known := false
	if s := d.Head.Health.Status; s != nil {
		if i := slices.IndexFunc(s.Machines, func(m report.MachineStatus) bool { return m.Name == machine }); i >= 0 {
			d.Machine, known = s.Machines[i], true
		}
	}
	d.Head.Health.Status = nil
	if !known {
		return nil, fail.New(fail.NotFound, "cluster %s has no machine %.63q, as far as is known", name, machine).Do("the page of the cluster lists its machines")
	}
	d.Tone, d.Node = machineClass(&d.Machine), d.Machine.Role != "gateway"
	runs, err := p.c.Store.Runs(ctx, name, recent)
	if err != nil {
		return nil, err
	}
	for i := range runs {
		for _, s := range runs[i].Steps {
			if s.Subject == machine && len(d.Steps) < mostSteps {
				d.Steps = append(d.Steps, machineStep{runs[i].ID, runs[i].Title, s.Title, string(s.State), s.Started})
			}
		}
	}
	if p.c.Machines != nil && c.Provider == metalProvider && who.Sees("") {
		d.Metal = metalOf(ctx, p, machine)
	}
	if d.Node {
		if d.Figures, err = figuresOf(p, r, who, name, machine); err != nil {
			return nil, err
		}
	}
	v := &view{name: "cluster-machine", Charts: d.Figures != nil, Title: machine + " · " + name, Command: "naupegos ssh " + quote(name) + " " + quote(machine) + "\nnaupegos node list " + quote(name), Data: d}
	if r.URL.Query().Get("look") == "" { // the stream must not ask Prometheus
		v.Live = liveOf(r)
	}
	return v, nil
}

// metalOf returns the UUID of the physical machine of this name, or "".
func metalOf(ctx context.Context, p *Pages, name string) string {
	m, err := p.c.Store.Metal().ByName(ctx, name)
	if err != nil {
		return ""
	}
	return m.UUID
}

// hurryAction makes a server look at a cluster at once.
func hurryAction(p *Pages) action {
	return action{what: "asked for a look at a cluster", need: server.Read, scope: server.Cluster("name"), do: func(r *http.Request, _ *access.Operator) (string, string, error) {
		c, err := p.c.Store.Cluster(r.Context(), r.PathValue("name"))
		if err != nil {
			return "", "", err
		}
		return "", "/ui/clusters/" + c.Name, p.c.Store.Health().Hurry(r.Context(), c.ID)
	}}
}
