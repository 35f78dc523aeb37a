package web

import (
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

// signedIn returns the operator of a request. Otherwise it answers the request and returns nil: a form comes back, to be sent again; other
// requests lead to the page to sign in on.
func (p *Pages) signedIn(w http.ResponseWriter, r *http.Request) *access.Operator {
	who, err := p.operator(r)
	if err == nil {
		return who
	}
	if fail.KindOf(err) != fail.Unauthorized {
		p.failed(w, r, nil, err)
		return nil
	}
	unknown(p, r, err)
	switch r.Method {
	case http.MethodPost:
		p.ended(w, r)
	default:
		if p.kept(r) != "" { // an invalid cookie that is sent again and again would look like guesses
			p.keep(w, "", -1)
		}
		http.Redirect(w, r, "/ui/login?to="+template.URLQueryEscaper(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // a page of ours; login leads nowhere else
	}
	return nil
}

// ended returns the form of an expired session to the user, who can sign in in another window and send it again.
func (p *Pages) ended(w http.ResponseWriter, r *http.Request) {
	type sent struct {
		Action, Document string
		Fields           []field
	}
	d := sent{Action: r.URL.Path, Document: r.PostFormValue("document"), Fields: fieldsSent(r, "document")}
	p.render(w, r, http.StatusUnauthorized, nil, &view{name: "session-ended", Title: "Your session has ended", Data: d})
}

// fieldsSent returns the fields of a request's form, but for some.
func fieldsSent(r *http.Request, without ...string) (all []field) {
	_ = r.PostFormValue("") // parses the form
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, v := range r.PostForm[name] {
			if !slices.Contains(without, name) {
				all = append(all, field{name, v})
			}
		}
	}
	return all
}

// failure is what the page of an error offers.
type failure struct {
	From string     // page to return to; empty: none
	Job  *store.Job // that is in the way; nil: none
	Plan *again     // plans the same once more; nil: there is no plan
	Edit *editing
}

// failed shows an error, with a link back to the previous page.
func (p *Pages) failed(w http.ResponseWriter, r *http.Request, who *access.Operator, err error) {
	fails(p, w, r, who, err, failure{})
}

// fails shows an error, and what can be done now. The link back leads to the nearest page at or above the address of the previous one: plans have
// no address to return to.
func fails(p *Pages, w http.ResponseWriter, r *http.Request, who *access.Operator, err error, f failure) {
	title := "It did not work"
	if fail.KindOf(err) == fail.NotFound {
		title = "Not found"
	}
	if u, err := url.Parse(r.Referer()); err == nil && u.Host == r.Host && local(u.Path) == u.Path {
		from := u.RequestURI()
		for at := u.Path; !shows(p, at); from = at {
			at = path.Dir(at)
		}
		if from != "/ui" && from != "/ui/" && from != r.URL.Path {
			f.From = from
		}
	}
	p.render(w, r, status(err), who, &view{name: "failed", Title: title, Failed: err.Error(), Data: f})
}

// shows reports whether a path leads to a page, or to no page of these.
func shows(p *Pages, at string) bool {
	mux := http.NewServeMux()
	for pattern := range p.pages() {
		mux.Handle("GET "+pattern, http.NotFoundHandler())
	}
	_, pattern := mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: at}})
	return pattern != "" || at == "/ui" || at == "/"
}

// nothing answers requests for unknown paths below /ui/.
func (p *Pages) nothing(w http.ResponseWriter, r *http.Request) {
	who, err := p.operator(r)
	if err != nil {
		who = nil
	}
	p.failed(w, r, who, fail.New(fail.NotFound, "there is no page %.100q", r.URL.Path))
}

// editing leads back from a plan to what was asked for.
type editing struct {
	Cluster, Document string // Document: as it was typed; empty: the plan is not of a typed document
}

// editPage returns a typed document to the form that it came from.
func editPage(p *Pages) pageFunc {
	return func(r *http.Request, _ *access.Operator) (*view, error) {
		name := r.PathValue("name")
		f := documentForm{Action: "/ui/clusters/" + name + "/plan", Text: typed(r), Button: "Plan"}
		switch _, err := p.c.Store.Cluster(r.Context(), name); {
		case fail.KindOf(err) == fail.NotFound:
			f.Action = "/ui/new"
		case err != nil:
			return nil, err
		}
		return &view{name: "document", Title: "Document " + name, Command: "naupegos validate -f FILE", Data: &f}, nil
	}
}

// noPlan answers the address of a plan, which only a form can ask for, with the page of the cluster's document.
func noPlan(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/ui/clusters/"+url.PathEscape(r.PathValue("name"))+"/document", http.StatusSeeOther)
}

// notCarriedOut returns what to offer after a refused agreement to a plan: to plan again, to edit, and the job in the way.
func notCarriedOut(p *Pages) func(r *http.Request, err error) failure {
	return func(r *http.Request, err error) failure {
		name := r.PathValue("name")
		f := failure{Plan: &again{Cluster: name, Text: "Plan again", Fields: fieldsSent(r, "digest", "consent", "yes")}, Edit: &editing{name, typed(r)}}
		if fail.KindOf(err) == fail.Conflict {
			f.Job, _ = openJob(p, r, name) // without it, the error is shown all the same
		}
		return f
	}
}

// openJob returns the job of a cluster that has not ended, or nil, and its order.
func openJob(p *Pages, r *http.Request, cluster string) (*store.Job, work.Order) {
	var o work.Order
	jobs, err := p.c.Store.Jobs(r.Context(), cluster, 1) // a cluster has one open job at most, the newest
	if err != nil || len(jobs) == 0 || jobs[0].State == store.JobEnded || json.Unmarshal(jobs[0].Request, &o) != nil {
		return nil, o
	}
	return &jobs[0], o
}
