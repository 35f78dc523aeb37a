package web

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/server/watch"
)

// view is one page with what it shows.
type view struct {
	name     string // of the template
	Title    string
	Version  string
	Operator *access.Operator
	Nav      []link
	Said     string // what was done, for people
	Failed   string // what went wrong, for people
	Command  string // by which the same is shown
	Onward   string // the page that the browser goes to by itself; empty: it stays
	Code     int    // of the answer; 0: 200
	Live     string // where the page's stream is; empty: it has none
	Data     any
}

// pageFunc returns a page for somebody who may look.
type pageFunc func(r *http.Request, who *access.Operator) (*view, error)

// show serves a page to whoever has signed in and may see it.
func (p *Pages) show(of sight) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := p.operator(r)
		if err != nil && fail.KindOf(err) != fail.Unauthorized {
			p.failed(w, r, nil, err)
			return
		}
		if err != nil && r.Method == http.MethodPost {
			p.ended(w, r)
			return
		}
		if err != nil {
			if p.kept(r) != "" { // it is good for nothing any more; shown again and again it would look like guesses
				p.keep(w, "", -1)
			}
			http.Redirect(w, r, "/ui/login?to="+template.URLQueryEscaper(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // a page of ours; login leads nowhere else
			return
		}
		p.serve(w, r, who, of)
	})
}

// look returns a page of whoever may see it.
func (of sight) look(r *http.Request, who *access.Operator) (*view, error) {
	if _, err := who.Admit(r, of.need, of.scope); err != nil {
		return nil, err
	}
	return of.page(r, who)
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
	if v.Said == "" {
		v.Said = said[r.URL.Query().Get("done")]
	}
	if v.Live != "" {
		v.Live = since(v.Live, v.Data)
	}
	p.render(w, r, cmp.Or(v.Code, http.StatusOK), who, v)
}

// failed says what went wrong, and leads back to where the reader came from.
func (p *Pages) failed(w http.ResponseWriter, r *http.Request, who *access.Operator, err error) {
	title := "It did not work"
	if fail.KindOf(err) == fail.NotFound {
		title = "Not found"
	}
	from := "/ui/"
	if u, err := url.Parse(r.Referer()); err == nil && u.Host == r.Host && u.Path != r.URL.Path {
		from = local(u.RequestURI())
	}
	p.render(w, r, status(err), who, &view{name: "failed", Title: title, Failed: err.Error(), Data: from})
}

// nothing answers for paths of these pages where there is none.
func (p *Pages) nothing(w http.ResponseWriter, r *http.Request) {
	who, err := p.operator(r)
	if err != nil {
		who = nil
	}
	p.failed(w, r, who, fail.New(fail.NotFound, "there is no page %.100q", r.URL.Path))
}

// ended keeps what somebody sent after their session had ended: they sign in elsewhere and send it again.
func (p *Pages) ended(w http.ResponseWriter, r *http.Request) {
	type sent struct {
		Action, Document string
		Fields           []field
	}
	d := sent{Action: r.URL.Path, Document: r.PostFormValue("document")}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, v := range r.PostForm[name] {
			if name != "document" {
				d.Fields = append(d.Fields, field{name, v})
			}
		}
	}
	p.render(w, r, http.StatusUnauthorized, nil, &view{name: "session-ended", Title: "Your session has ended", Data: d})
}

// action does something that a form asks for, and returns the page to go to afterwards.
type action struct {
	what string // for the audit
	need server.Role
	// within bounds the answer; 0: the server's usual bound.
	within time.Duration
	scope  server.Scope
	// do returns the machine that it was about, or the job, that it was about, for the audit, and where to go.
	do func(r *http.Request, who *access.Operator) (on, to string, err error)
}

// act carries an action out for whoever has signed in and may.
func (p *Pages) act(a action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := p.operator(r)
		if err != nil {
			http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
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
			p.failed(w, r, who, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	})
}

// do carries an action out. One that breaks off has failed, in the audit, too.
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

// said is what pages say after an action, by a word in their address: no text of a request is shown as ours.
var said = map[string]string{
	"approved": "The machine was approved.", "rejected": "The machine was rejected.", "changed": "The machine was changed.", "on": "According to its BMC, the machine is on.", "off": "According to its BMC, the machine is off.",
	"forgotten": "The machine was forgotten. It can be discovered again.",
}

// render writes a page whole or not at all.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, code int, who *access.Operator, v *view) {
	body, err := p.draw(r, who, v)
	if err != nil {
		p.c.Log.Error("a page can't be drawn", "path", r.URL.Path, "error", err.Error())
		http.Error(w, "the page can't be drawn: this is a defect of the server", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(body) // whoever asked has gone away
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

// status is the HTTP status of an error: the one that the API answers with.
func status(err error) int { return problem.Of(err).Status }

// parse reads the templates: each page has the layout around it.
func parse() (map[string]*template.Template, error) {
	layout, err := template.New("layout").Funcs(template.FuncMap{
		"days":       func(t time.Time) int { return int(time.Until(t).Hours() / 24) },
		"healthTone": healthTone, "members": membersTone, "span": span, "when": when, "verb": verbOf, "choose": choose,
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

// ago says how long something is past.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < 48*time.Hour:
		return words.Duration(d.Truncate(time.Second)) + " ago"
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

// size says how many bytes something has.
func size(n int64) string {
	const k = 1000
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	f, i := float64(n), 0
	for f >= k && i < len(units)-1 {
		f, i = f/k, i+1
	}
	return fmt.Sprintf("%.3g %s", f, units[i])
}

// tone says how good or bad a word is, as a class of the style sheet.
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

// when shows how long ago something was, or how far ahead it is; the time itself is its title.
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

// span says how long something takes.
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

// healthTone says how good a state of a cluster is, as a class of the style sheet.
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

// membersTone says whether all members are well.
func membersTone(m watch.Members) string {
	if m.Full() {
		return "dim"
	}
	return "bad"
}
