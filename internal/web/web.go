// Package web serves the server's pages for operators: machines, approvals, clusters, runs, waves, backups, the audit.
//
// The server renders the pages, which work without scripts; a small script renews them when something changes. They read and change only what the
// API can, through the same packages, and each shows the equivalent command line. The package depends neither on listeners nor on the storage of
// operators' tokens.
package web

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

//go:embed static pages
var files embed.FS

// Config configures the pages.
type Config struct {
	Store    store.Store
	Gate     *access.Gate
	Provider Provider           // nil: operators sign in only with tokens
	Machines *registry.Registry // nil: no pages about physical machines
	// Look returns the options of a session that only looks at a cluster.
	Look func(name string) operate.Options
	// Open opens a separate store for each session, which closes it.
	Open    func(context.Context) (store.Store, error)
	Options func(a operate.Asked, n work.Need) operate.Options
	Board   *work.Board
	Version string
	Log     *slog.Logger // nil: no log
	// Door replaces tokens on loopback, where naupegos ui serves plain HTTP at Port. nil: operators sign in with tokens.
	Door Door
	Port string
	Done <-chan struct{} // closes when the server stops, which ends streams; nil: only their readers end streams
}

// Pages holds the handlers of all pages.
type Pages struct {
	c       Config
	html    map[string]*template.Template
	guard   *http.CrossOriginProtection
	watched time.Duration // interval at which a stream checks its page
	figures figuresFunc
	inside  insider
}

// Route is one handler.
type Route struct {
	Pattern string // in the syntax of http.ServeMux
	Handler http.Handler
	Need    server.Role   // role of the operator; the handler checks it, and the scope
	Scope   server.Scope  // which cluster or machine the route concerns
	Stream  bool          // the answer lasts as long as its reader
	Within  time.Duration // time limit of the answer; 0: the server's usual limit
}

// New returns the pages.
func New(c Config) (*Pages, error) {
	p := &Pages{c: c, guard: http.NewCrossOriginProtection(), watched: 2 * time.Second, figures: askFigures, inside: insiders}
	p.guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { crossed(p, w, r) }))
	if p.c.Log == nil {
		p.c.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if p.html, err = parse(); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the pages' templates")
	}
	return p, nil
}

// Routes returns the handlers.
func (p *Pages) Routes() []Route {
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // never: the files are embedded
	}
	all := []Route{
		{Pattern: "GET /ui/static/", Handler: headers(lasting(http.StripPrefix("/ui/static/", http.FileServerFS(onlyFiles{static}))))},
		{Pattern: "GET /ui/login", Handler: headers(http.HandlerFunc(p.loginPage))},
		{Pattern: "POST /ui/logout", Handler: headers(p.guard.Handler(http.HandlerFunc(p.logout)))},
		{Pattern: "GET /{$}", Handler: headers(http.RedirectHandler("/ui/", http.StatusSeeOther))}, // for an address without a path
		{Pattern: "GET /ui", Handler: headers(http.RedirectHandler("/ui/", http.StatusSeeOther))},
		{Pattern: "GET /ui/clusters/{name}/plan", Handler: headers(http.HandlerFunc(noPlan))},
		{Pattern: "/ui/", Handler: headers(http.HandlerFunc(p.nothing))},
	}
	if p.c.Door == nil {
		all = append(all, Route{Pattern: "POST /ui/login", Handler: headers(p.guard.Handler(http.HandlerFunc(p.login)))})
	}
	all = append(append(all, p.signInRoutes()...), openRoutes(p)...)
	for i := range all {
		all[i].Scope = server.Public()
	}
	all = append(all, Route{Pattern: "GET /ui/live", Handler: headers(http.HandlerFunc(p.live)), Need: server.Read, Scope: server.Own(), Stream: true}) // it checks the page's role and scope itself
	for pattern, of := range p.pages() {
		all = append(all, Route{Pattern: "GET " + pattern, Handler: headers(p.show(of)), Need: of.need, Scope: of.scope})
	}
	for pattern, of := range p.plans() {
		all = append(all, Route{Pattern: "POST " + pattern, Handler: headers(p.guard.Handler(p.show(of))), Need: of.need, Scope: of.scope, Within: planning})
	}
	for pattern, d := range downloads() {
		all = append(all, Route{Pattern: "POST " + pattern, Handler: headers(p.guard.Handler(p.handOut(d))), Need: d.need, Scope: server.Cluster("name"), Within: d.within})
	}
	for pattern, act := range p.actions() {
		all = append(all, Route{Pattern: "POST " + pattern, Handler: headers(p.guard.Handler(p.act(act))), Need: act.need, Scope: act.scope, Within: act.within})
	}
	return all
}

// sight is a page, with the role and scope that it requires.
type sight struct {
	need  server.Role
	scope server.Scope
	page  pageFunc
}

// pages returns the pages by their patterns.
func (p *Pages) pages() map[string]sight {
	all := map[string]sight{
		"/ui/{$}":            {server.Read, server.Own(), p.overviewPage},
		"/ui/clusters":       {server.Read, server.Own(), p.clustersPage},
		"/ui/new":            {server.Operate, server.Own(), p.newPage},
		"/ui/runs/{id}":      {server.Read, server.Found("run", "id", p.clusterOfRun), p.runPage},
		"/ui/jobs/{id}":      {server.Read, server.Found("job", "id", p.clusterOfJob), p.jobPage},
		"/ui/reviews/{name}": {server.Read, server.Cluster("name"), func(r *http.Request, who *access.Operator) (*view, error) { return reviewPage(p, r, who) }},
		"/ui/backups":        {server.Read, server.Own(), p.backupsPage},
		"/ui/audit":          {server.Admin, server.Everything(), p.auditPage},

		"/ui/clusters/{name}":                    {server.Read, server.Cluster("name"), clusterTab(p, "", overviewTab)},
		"/ui/clusters/{name}/nodes":              {server.Read, server.Cluster("name"), clusterTab(p, "nodes", nodesTab)},
		"/ui/clusters/{name}/figures":            {server.Read, server.Cluster("name"), clusterTab(p, "figures", figuresTab)},
		"/ui/clusters/{name}/workloads":          {server.Operate, server.Cluster("name"), clusterTab(p, "workloads", workloadsTab)},
		"/ui/clusters/{name}/events":             {server.Read, server.Cluster("name"), clusterTab(p, "events", eventsTab)},
		"/ui/clusters/{name}/runs":               {server.Read, server.Cluster("name"), clusterTab(p, "runs", runsTab)},
		"/ui/clusters/{name}/backups":            {server.Read, server.Cluster("name"), clusterTab(p, "backups", backupsTab)},
		"/ui/clusters/{name}/certificates":       {server.Read, server.Cluster("name"), clusterTab(p, "certificates", certificatesTab)},
		"/ui/clusters/{name}/document":           {server.Read, server.Cluster("name"), clusterTab(p, "document", documentTab)},
		"/ui/clusters/{name}/actions":            {server.Operate, server.Cluster("name"), clusterTab(p, "actions", actionsTab)},
		"/ui/clusters/{name}/machines/{machine}": {server.Read, server.Cluster("name"), p.clusterMachinePage},

		"/ui/clusters/{name}/log/{namespace}/{pod}": {server.Operate, server.Cluster("name"), func(r *http.Request, who *access.Operator) (*view, error) { return logPage(p, r, who) }},
	}
	if p.c.Machines != nil { // pages without a cluster
		all["/ui/machines"] = sight{server.Read, server.Everything(), p.machinesPage}
		all["/ui/machines/{uuid}"] = sight{server.Read, server.Everything(), p.machinePage}
		all["/ui/approvals"] = sight{server.Read, server.Everything(), p.approvalsPage}
		all["/ui/waves"] = sight{server.Read, server.Everything(), p.wavesPage}
	}
	return all
}

// plans returns the pages that answer a form with a plan, or with a document to edit.
func (p *Pages) plans() map[string]sight {
	return map[string]sight{
		"/ui/clusters/{name}/plan": {server.Operate, server.Cluster("name"), orForm(p.planPage, func(r *http.Request) string { return r.PathValue("name") })},
		"/ui/clusters/{name}/edit": {server.Operate, server.Cluster("name"), editPage(p)},
		"/ui/new":                  {server.Operate, server.Own(), orForm(p.newPlanPage, func(*http.Request) string { return "" })},
	}
}

// open reports whether an operator may see a page without variables in its path.
func (s sight) open(who access.Operator) bool {
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err == nil {
		_, err = who.Admit(r, s.need, s.scope)
	}
	return err == nil
}

// clusterOfRun returns the cluster of a run.
func (p *Pages) clusterOfRun(r *http.Request, id string) (string, error) {
	run, err := p.c.Store.Run(r.Context(), id)
	if err != nil {
		return "", err
	}
	return run.Cluster, nil
}

// clusterOfJob returns the cluster of a job.
func (p *Pages) clusterOfJob(r *http.Request, id string) (string, error) {
	j, err := p.c.Store.Job(r.Context(), id)
	if err != nil {
		return "", err
	}
	return j.Cluster, nil
}

// actions returns the actions of the pages, by their patterns.
func (p *Pages) actions() map[string]action {
	all := p.jobActions()
	if p.c.Machines != nil {
		maps.Copy(all, p.machineActions())
	}
	return all
}

// link is a link to a main page or a tab. Key is pressed after g.
type link struct {
	Href, Text, Key string
	Here            bool
}

// nav returns the links to the existing pages that an operator may see; nil sees all. here is the path of the current page.
func (p *Pages) nav(ctx context.Context, here string, who *access.Operator) (all []link) {
	known := p.pages()
	metal := p.c.Machines != nil && p.metalUsed(ctx)
	for _, l := range []link{
		{Href: "/ui/", Text: "Overview", Key: "o"}, {Href: "/ui/clusters", Text: "Clusters", Key: "c"}, {Href: "/ui/machines", Text: "Machines", Key: "m"},
		{Href: "/ui/approvals", Text: "Approvals", Key: "a"}, {Href: "/ui/waves", Text: "Waves", Key: "w"},
		{Href: "/ui/backups", Text: "Backups", Key: "b"}, {Href: "/ui/audit", Text: "Audit", Key: "u"},
	} {
		of, is := known[l.Href]
		if l.Href == "/ui/" {
			of, is = known["/ui/{$}"]
		}
		if !metal && (l.Href == "/ui/machines" || l.Href == "/ui/approvals" || l.Href == "/ui/waves") && here != l.Href {
			continue
		}
		if is && (who == nil || of.open(*who)) {
			l.Here = here == l.Href || l.Href != "/ui/" && strings.HasPrefix(here, l.Href+"/")
			all = append(all, l)
		}
	}
	return all
}

// onlyFiles is a file system without directories, which http.FileServerFS would list.
type onlyFiles struct{ fs.FS }

// Open implements fs.FS.
func (o onlyFiles) Open(name string) (fs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, errors.Join(fs.ErrNotExist, err, f.Close())
	}
	return f, nil
}
