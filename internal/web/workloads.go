package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/running"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

// insider looks into clusters. Tests replace it.
type insider struct {
	workloads func(ctx context.Context, p *Pages, who *access.Operator, name string, ask running.Ask) (*running.List, error)
	events    func(ctx context.Context, p *Pages, who *access.Operator, name string, in operate.EventsOf) (*operate.EventList, error)
	log       func(ctx context.Context, p *Pages, who *access.Operator, name string, of running.LogOf) (*running.Log, error)
}

// viewer returns the function that asks a cluster for a view.
func viewer[In, T any](v operate.View[In, T]) func(context.Context, *Pages, *access.Operator, string, In) (*T, error) {
	return func(ctx context.Context, p *Pages, who *access.Operator, name string, in In) (*T, error) {
		return lookAt(ctx, p, who, name, func(s *operate.Session) (*T, error) { return v.See(ctx, s, in) })
	}
}

// insiders look into real clusters.
var insiders = insider{workloads: viewer(operate.Workloads), events: viewer(operate.Events), log: viewer(operate.PodLog)}

// insideData is the data of the tabs that look into a cluster.
type insideData struct {
	Cluster, Path string
	Kinds         []link
	Kind          string
	Namespace     string
	Selector      string
	Bad           bool // only unready objects and warnings
	Later         string
	Problem       string
	Rows          []insideRow
	Read          int    // objects that were looked at
	Next, First   string // addresses of other pages of the list
	Events        []operate.Happened
	Shown         bool // the cluster was asked
}

// insideRow is a workload with the addresses of what belongs to it.
type insideRow struct {
	running.Workload
	Pods string // of its pods; empty: it is one
	Logs []link
}

// mostShown limits the events on a page.
const mostShown = 200

// seenLater sets the address of the data that a page requests afterwards, and reports whether the request is that one.
func (d *insideData) seenLater(r *http.Request) bool {
	q := r.URL.Query()
	if q.Get("look") != "" {
		d.Shown = true
		return true
	}
	q.Set("look", "yes")
	d.Later = r.URL.Path + "?" + q.Encode()
	return false
}

func workloadsTab(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (string, error) {
	q := r.URL.Query()
	ask := running.Ask{Kind: cmp.Or(q.Get("kind"), running.Pods), Namespace: strings.TrimSpace(q.Get("namespace")), Selector: q.Get("selector"), NotReady: q.Get("bad") != "", Continue: q.Get("continue")}
	if err := ask.Check(); err != nil {
		return "", err
	}
	in := &insideData{Cluster: c.Name, Path: r.URL.Path, Kind: ask.Kind, Namespace: ask.Namespace, Selector: ask.Selector, Bad: ask.NotReady}
	d.Inside, d.Status = in, nil
	for _, kind := range running.Kinds() {
		in.Kinds = append(in.Kinds, link{Href: listOf(r.URL.Path, kind, ask.Namespace, "", ask.NotReady, ""), Text: kind, Here: kind == ask.Kind})
	}
	if ask.Continue != "" {
		in.First = listOf(r.URL.Path, ask.Kind, ask.Namespace, ask.Selector, ask.NotReady, "")
	}
	command := "kubectl get " + ask.Kind + " -A"
	if ask.Namespace != "" {
		command = "kubectl get " + ask.Kind + " -n " + ask.Namespace
	}
	if !in.seenLater(r) {
		return command, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), looking)
	defer cancel()
	list, err := p.inside.workloads(ctx, p, who, c.Name, ask)
	if err != nil {
		in.Problem = who.Told(err).Error()
		return command, nil
	}
	in.Read = list.Read
	for i := range list.Items {
		in.Rows = append(in.Rows, workloadRow(c.Name, r.URL.Path, ask.Kind, &list.Items[i]))
	}
	if list.Continue != "" {
		in.Next = listOf(r.URL.Path, ask.Kind, ask.Namespace, ask.Selector, ask.NotReady, list.Continue)
	}
	return command, nil
}

// listOf returns the address of a list of workloads.
func listOf(path, kind, namespace, selector string, bad bool, next string) string {
	q := url.Values{"kind": {kind}}
	for name, value := range map[string]string{"namespace": namespace, "selector": selector, "continue": next, "bad": map[bool]string{true: "yes"}[bad]} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return path + "?" + q.Encode()
}

func workloadRow(cluster, path, kind string, w *running.Workload) insideRow {
	row := insideRow{Workload: *w}
	if kind != running.Pods {
		if w.Selector != "" {
			row.Pods = listOf(path, running.Pods, w.Namespace, w.Selector, false, "")
		}
		return row
	}
	for _, name := range w.Containers {
		row.Logs = append(row.Logs, link{Href: "/ui/clusters/" + cluster + "/log/" + url.PathEscape(w.Namespace) + "/" + url.PathEscape(w.Name) + "?container=" + url.QueryEscape(name), Text: name})
	}
	return row
}

func eventsTab(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (string, error) {
	q := r.URL.Query()
	in := &insideData{Cluster: c.Name, Path: r.URL.Path, Namespace: strings.TrimSpace(q.Get("namespace")), Bad: q.Get("bad") != ""}
	if err := (running.Ask{Namespace: in.Namespace}).Check(); err != nil {
		return "", err
	}
	d.Inside, d.Status = in, nil
	command := "naupegos events " + quote(c.Name)
	if in.Bad {
		command += " --warnings"
	}
	if !in.seenLater(r) {
		return command, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), looking)
	defer cancel()
	list, err := p.inside.events(ctx, p, who, c.Name, operate.EventsOf{Warnings: in.Bad})
	if err != nil {
		in.Problem = who.Told(err).Error()
		return command, nil
	}
	if in.Problem = list.Problem; in.Problem != "" && who.Cluster != "" {
		in.Problem = "Kubernetes does not tell its events."
	}
	for _, e := range slices.Backward(list.Items) {
		if in.Namespace == "" || strings.Contains(e.Object, " "+in.Namespace+"/") {
			e.Object, e.Reason, e.Text = words.Clip(e.Object, 200), words.Clip(e.Reason, 80), words.Clip(e.Text, 500)
			in.Events = append(in.Events, e)
		}
	}
	slices.SortStableFunc(in.Events, func(a, b operate.Happened) int { return rank(a.Warning) - rank(b.Warning) })
	in.Events = in.Events[:min(len(in.Events), mostShown)]
	return command, nil
}

// rank sorts warnings first.
func rank(warning bool) int { return map[bool]int{false: 1}[warning] }

// logData is the data of the page of a container's log.
type logData struct {
	Head                      clusterHead
	Namespace, Pod, Container string
	Choices                   []link
	Later, Problem            string
	Log                       *running.Log
	At                        time.Time // when it was read
}

// logPage shows the end of a container's log. Each look is in the audit, because a log may hold secrets.
func logPage(p *Pages, r *http.Request, who *access.Operator) (*view, error) {
	q := r.URL.Query()
	of := running.LogOf{Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"), Container: q.Get("container"), Lines: 200, Previous: q.Get("previous") != ""}
	if q.Get("lines") == "2000" {
		of.Lines = 2000
	}
	if err := of.Check(); err != nil {
		return nil, err
	}
	c, err := p.c.Store.Cluster(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	d := logData{Namespace: of.Namespace, Pod: of.Pod, Container: of.Container}
	if d.Head, err = p.head(r.Context(), who, c, "workloads"); err != nil {
		return nil, err
	}
	d.Head.Health.Status = nil
	command := "kubectl logs -n " + of.Namespace + " " + of.Pod + " --tail=200"
	for _, choice := range []struct{ text, lines, previous string }{{"the last 200 lines", "", ""}, {"2000 lines", "2000", ""}, {"before the last restart", "", "yes"}} {
		at := url.Values{"container": {of.Container}}
		for name, value := range map[string]string{"lines": choice.lines, "previous": choice.previous} {
			if value != "" {
				at.Set(name, value)
			}
		}
		d.Choices = append(d.Choices, link{Href: r.URL.Path + "?" + at.Encode(), Text: choice.text, Here: q.Get("lines") == choice.lines && q.Get("previous") == choice.previous})
	}
	if of.Container != "" {
		command += " -c " + of.Container
	}
	v := &view{name: "cluster-log", Title: of.Pod + " · " + c.Name, Command: command}
	if q.Get("look") == "" {
		q.Set("look", "yes")
		d.Later = r.URL.Path + "?" + q.Encode()
		v.Data = d
		return v, nil
	}
	if err := p.c.Gate.Ready(r, *who, server.Admin, "read the log of pod "+of.Namespace+"/"+of.Pod, c.Name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), looking)
	defer cancel()
	if d.Log, err = p.inside.log(ctx, p, who, c.Name, of); err != nil {
		if d.Problem = who.Told(err).Error(); fail.KindOf(err) == fail.NotFound {
			d.Problem = "There is no such pod or container any more, or it has not been restarted."
		}
	}
	d.At = time.Now()
	v.Data = d
	return v, nil
}
