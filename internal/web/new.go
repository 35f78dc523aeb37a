package web

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/sample"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
)

// documentForm is a form for editing a document.
type documentForm struct {
	Action, Text, Button string
	Findings             []finding
	Marked               []markedLine // the wrong lines of the document, with context
}

// finding is a mistake in a document, with its line.
type finding struct {
	Line int // 0: unknown
	Text string
}

// markedLine is a line of a document.
type markedLine struct {
	Number int
	Text   string
	Bad    bool
}

// newData is the data of the page that creates a cluster.
type newData struct {
	Form      *documentForm // nil: the page asks for the choices first
	Providers []string
	Releases  []string

	Name, Provider, Kubernetes, ControlPlane, Workers string // the answers so far
}

// newPage asks for the properties of a new cluster, and then shows a matching document.
func (p *Pages) newPage(r *http.Request, who *access.Operator) (*view, error) {
	if err := who.May(server.Operate, who.Cluster); err != nil {
		return nil, err
	}
	d := newData{Providers: v1alpha1.Providers(), Releases: upgradesOf(""), Name: "demo", Kubernetes: release.Versions()[0], ControlPlane: "3", Workers: "2"}
	v := &view{name: "new", Title: "Create a cluster", Command: "naupegos init > cluster.yaml\nnaupegos plan -f cluster.yaml\nnaupegos apply -f cluster.yaml"}
	q := r.URL.Query()
	for field, to := range map[string]*string{"name": &d.Name, "provider": &d.Provider, "kubernetes": &d.Kubernetes, "control-plane": &d.ControlPlane, "workers": &d.Workers} {
		if q.Has(field) {
			*to = q.Get(field)
		}
	}
	if q.Has("provider") {
		text, err := sampleOf(q.Get, &d)
		if err != nil {
			v.Failed = err.Error()
		} else {
			d.Form = &documentForm{Action: "/ui/new", Text: text, Button: "Plan"}
		}
	}
	v.Data = d
	return v, nil
}

// sampleOf writes a document from the answers in a form.
func sampleOf(get func(string) string, d *newData) (string, error) {
	o := sample.Options{Provider: get("provider"), Name: strings.TrimSpace(get("name")), Kubernetes: get("kubernetes")}
	for _, n := range []struct {
		field string
		to    *int
	}{{"control-plane", &o.ControlPlanes}, {"workers", &o.Workers}} {
		text := strings.TrimSpace(get(n.field))
		if text == "" {
			continue
		}
		v, err := strconv.Atoi(text)
		if err != nil || v < 0 {
			return "", fail.New(fail.Invalid, "%s: %.20q is not a number", n.field, text)
		}
		if *n.to = v; v == 0 && n.field == "workers" {
			*n.to = sample.NoWorkers
		}
	}
	if !slices.Contains(d.Providers, o.Provider) {
		return "", fail.New(fail.Invalid, "provider: there is no provider %.40q", o.Provider)
	}
	if _, ok := release.Find(o.Kubernetes); o.Kubernetes != "" && !ok {
		return "", fail.New(fail.Invalid, "kubernetes: no release %.40q is known", o.Kubernetes)
	}
	text, err := sample.New(o)
	return string(text), err
}

// newAsked returns the request to apply a new cluster's document.
func newAsked(r *http.Request) operate.Asked {
	return operate.Asked{Verb: operate.Apply, From: "the document of this page", Document: typed(r)}
}

// typed returns the document of a form. Browsers send it with the line ends of HTTP.
func typed(r *http.Request) string {
	return strings.ReplaceAll(r.PostFormValue("document"), "\r\n", "\n")
}

// back returns the form with the typed text, the mistakes and the wrong lines.
func back(f documentForm, err error) *documentForm {
	var refused v1alpha1.Refusal
	if errors.As(err, &refused) {
		err = refused.Locate("", []byte(f.Text))
	}
	var found v1alpha1.Errors
	if !errors.As(err, &found) {
		f.Findings = []finding{{Text: err.Error()}}
		return &f
	}
	bad := map[int]bool{}
	for _, e := range found {
		e.File = ""
		at := finding{e.Line, e.Error()}
		if e.Line > 0 {
			bad[e.Line] = true
			e.Line = 0
			at.Text = e.Error()
		}
		f.Findings = append(f.Findings, at)
	}
	const context = 2
	for i, text := range strings.Split(f.Text, "\n") {
		for n := max(1, i+1-context); n <= i+1+context; n++ {
			if bad[n] {
				f.Marked = append(f.Marked, markedLine{i + 1, text, bad[i+1]})
				break
			}
		}
	}
	return &f
}

// orForm returns a page that makes a plan. If the plan fails, the page shows the form with the typed text, so that no input is lost.
func orForm(page pageFunc, name func(r *http.Request) string) pageFunc {
	return func(r *http.Request, who *access.Operator) (*view, error) {
		v, err := page(r, who)
		if _, given := r.PostForm["document"]; err == nil || !given {
			return v, err
		}
		f := documentForm{Action: r.URL.Path, Text: typed(r), Button: "Plan"}
		return &view{name: "document", Title: strings.TrimSpace("Document " + name(r)), Code: status(err), Command: "naupegos validate -f FILE", Data: back(f, who.Told(err))}, nil
	}
}

// newPlanPage makes a plan for a cluster that the store does not have yet.
func (p *Pages) newPlanPage(r *http.Request, who *access.Operator) (*view, error) {
	asked := newAsked(r)
	name, err := documentName(asked)
	if err != nil {
		return nil, err
	}
	if err := who.May(server.Operate, name); err != nil {
		return nil, err
	}
	if _, err := p.c.Store.Cluster(r.Context(), name); err == nil {
		return nil, fail.New(fail.Conflict, "there is a cluster %s already", name).Do("choose another name, or edit the document on the cluster's page")
	}
	return p.plan(r, who, name, asked)
}

// documentName returns the name of the cluster in a document, which must be valid.
func documentName(a operate.Asked) (string, error) {
	if strings.TrimSpace(a.Document) == "" {
		return "", fail.New(fail.Invalid, "document: it is empty")
	}
	return a.Name()
}
