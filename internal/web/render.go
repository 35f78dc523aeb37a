package web

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/server/watch"
)

// view is a page with its data.
type view struct {
	name     string // name of the template
	Title    string
	Version  string
	Operator *access.Operator
	Nav      []link
	Said     string // message about a completed action
	Failed   string // error message
	Command  string // command line that shows the same
	Onward   string // address that the page redirects to; empty: none
	Code     int    // HTTP status; 0: 200
	Live     string // address of the page's stream; empty: none
	Charts   bool   // it has charts, and thus their script
	Data     any
}

// pageFunc returns a page for an operator who may see it.
type pageFunc func(r *http.Request, who *access.Operator) (*view, error)

// show serves a page to signed-in operators who may see it.
func (p *Pages) show(of sight) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := p.signedIn(w, r)
		if who == nil {
			return
		}
		p.serve(w, r, who, of)
	})
}

// look returns the page if the operator may see it.
func (s sight) look(r *http.Request, who *access.Operator) (*view, error) {
	if _, err := who.Admit(r, s.need, s.scope); err != nil {
		return nil, err
	}
	return s.page(r, who)
}

func (p *Pages) serve(w http.ResponseWriter, r *http.Request, who *access.Operator, of sight) {
	ended := false
	defer func() {
		if !ended {
			p.c.Gate.Note(r, *who, r.Method+" "+r.URL.Path, "", fail.New(fail.Internal, "the page broke off"))
		}
	}()
	v, err := of.look(r, who)
	ended = true
	if err = who.Told(err); err != nil {
		p.c.Gate.Note(r, *who, r.Method+" "+r.URL.Path, r.PathValue("name"), err)
		p.failed(w, r, who, err)
		return
	}
	if r.Method == http.MethodPost && r.PostFormValue("document") != "" { // as with the API
		p.c.Gate.Note(r, *who, r.Method+" "+r.URL.Path, r.PathValue("name"), nil)
	}
	if v.Said == "" {
		v.Said = said[r.URL.Query().Get("done")]
	}
	if v.Live != "" {
		v.Live = since(v.Live, v.Data)
	}
	p.render(w, r, cmp.Or(v.Code, http.StatusOK), who, v)
}

// action handles a form, and returns the page to go to afterwards.
type action struct {
	what string // for the audit
	need server.Role
	// within is the time limit of the answer; 0: the server's usual limit.
	within time.Duration
	scope  server.Scope
	// do returns the machine or job that the action concerned, for the audit, and the address to go to.
	do func(r *http.Request, who *access.Operator) (on, to string, err error)
	// failed returns what the page of an error offers; nil: nothing of its own.
	failed func(r *http.Request, err error) failure
}

// act performs an action for signed-in operators who may do so.
func (p *Pages) act(a action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := p.signedIn(w, r)
		if who == nil {
			return
		}
		on, to := "", ""
		cluster, err := who.Admit(r, a.need, a.scope)
		if err == nil {
			err = p.c.Gate.Ready(r, *who, a.need, a.what, cluster)
		}
		if err == nil {
			on, to, err = p.do(a, r, who)
		}
		err = who.Told(err)
		p.c.Gate.Note(r, *who, strings.TrimSpace(a.what+" "+on), cluster, err)
		if err != nil {
			var f failure
			if a.failed != nil {
				f = a.failed(r, err)
			}
			fails(p, w, r, who, err, f)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // actions return pages of ours
	})
}

// do performs an action. A panic is recorded in the audit as a failure.
func (p *Pages) do(a action, r *http.Request, who *access.Operator) (on, to string, err error) {
	ended := false
	defer func() {
		if !ended {
			p.c.Gate.Note(r, *who, a.what, r.PathValue("name"), fail.New(fail.Internal, "the action broke off"))
		}
	}()
	on, to, err = a.do(r, who)
	ended = true
	return on, to, err
}

// said maps a word in a page's address to the message after an action, so that no text of a request appears as the server's.
var said = map[string]string{
	"approved": "The machine was approved.", "rejected": "The machine was rejected.", "changed": "The machine was changed.", "on": "According to its BMC, the machine is on.", "off": "According to its BMC, the machine is off.",
	"forgotten": "The machine was forgotten. It can be discovered again.",
}

// render writes a whole page or an error.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, code int, who *access.Operator, v *view) {
	body, err := p.draw(r, who, v)
	if err != nil {
		p.c.Log.Error("a page can't be drawn", "path", r.URL.Path, "error", err.Error())
		http.Error(w, "the page can't be drawn: this is a defect of the server", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(body) // an error means that the client has left
}

func (p *Pages) draw(r *http.Request, who *access.Operator, v *view) ([]byte, error) {
	v.Version, v.Operator = p.c.Version, who
	if who != nil {
		v.Nav = p.nav(r.Context(), r.URL.Path, who)
	}
	var b bytes.Buffer
	if err := p.html[v.name].ExecuteTemplate(&b, "layout", v); err != nil {
		return nil, fmt.Errorf("draw the page %s: %w", v.name, err)
	}
	return b.Bytes(), nil
}

// status returns the HTTP status of an error, the same as the API's.
func status(err error) int { return problem.Of(err).Status }

// parse parses the templates; each page includes the layout.
func parse() (map[string]*template.Template, error) {
	layout, err := template.New("layout").Funcs(template.FuncMap{
		"days":       func(t time.Time) int { return int(time.Until(t).Hours() / 24) },
		"healthTone": healthTone, "members": membersTone, "span": span, "when": when, "verb": verbOf, "choose": choose, "cuts": cuts,
		"ago":   func(t time.Time) string { return ago(t, time.Now()) },
		"at":    at,
		"bytes": size,
		"clip":  clip,
		"join":  strings.Join,
		"short": func(s string) string { return s[:min(len(s), 12)] },
		"tone":  tone,
	}).ParseFS(files, "pages/layout.html", "pages/parts/*.html")
	if err != nil {
		return nil, err
	}
	names, err := files.ReadDir("pages")
	if err != nil {
		return nil, err
	}
	all := map[string]*template.Template{}
	for _, f := range names {
		if f.Name() == "layout.html" || f.IsDir() {
			continue
		}
		t, err := template.Must(layout.Clone()).ParseFS(files, "pages/"+f.Name())
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(path.Base(f.Name()), ".html")] = t
	}
	return all, nil
}

// ago describes how long ago a time was, as age in live.js does.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours())/24)
	}
}

func at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// size formats a number of bytes.
func size(n int64) string {
	const k = 1000
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	f, i := float64(n), 0
	for f >= k && i < len(units)-1 {
		f, i = f/k, i+1
	}
	return fmt.Sprintf("%.3g %s", f, units[i])
}

// tone returns the style class for a word, which shows how good or bad it is.
func tone(word string) string {
	switch word {
	case "approved", "running", "succeeded", "installed", "Ready", "up to date", "ready", "ok":
		return "ok"
	case "pending", "denied", "interrupted", "discovered", "stopped", "granted", "booting", "outdated", "to be replaced", "1 change":
		return "warn"
	case "rejected", "failed", "missing", "unwanted":
		return "bad"
	}
	switch {
	case strings.HasPrefix(word, "Ready, "), strings.HasSuffix(word, " changes"):
		return "warn"
	case strings.HasPrefix(word, "not "):
		return "bad"
	}
	return "dim"
}

// when returns how long ago or how far ahead a time is, with the time itself as title.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "never"
	}
	text := ago(t, time.Now())
	if d := time.Until(t); d > time.Second {
		text = "in " + span(d)
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, t.UTC().Format(time.RFC3339), at(t), text)) //nolint:gosec // times alone
}

// span formats a duration.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// healthTone returns the style class for a cluster's state.
func healthTone(state string) string {
	switch state {
	case watch.Healthy:
		return "ok"
	case watch.Drifted:
		return "warn"
	case watch.Unhealthy:
		return "bad"
	}
	return "dim"
}

// membersTone returns the style class for a count of members.
func membersTone(m watch.Members) string {
	if m.Full() {
		return "dim"
	}
	return "bad"
}
