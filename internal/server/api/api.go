// Package api serves the operators' API over HTTPS: clusters, plans, jobs and history, described by OpenAPI 3.1.
//
// Handlers only translate: package operate does the work, directly or in a job of internal/server/work.
package api

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

// Config configures the API.
type Config struct {
	Store store.Store
	// Open opens a separate store for each session, which closes it.
	Open    func(context.Context) (store.Store, error)
	Options func(a operate.Asked, n work.Need) operate.Options
	Look    func(a string) operate.Options // options of a session that only observes a cluster
	Board   *work.Board
	Log     *slog.Logger
	Version string
}

// api serves the API.
type api struct {
	Config
	huma huma.API
	mux  *http.ServeMux
	all  []server.Mount  // one per operation
	stop context.Context // ends with the server, and with it every follower of a job

	description, page func() ([]byte, error) // of the API, for programs and for people
}

// Time limits of answers. A plan may have to wait for a bundle.
const (
	short = time.Minute
	long  = 45 * time.Minute
)

// Part returns the API as a part of the server. Streams of jobs end when ctx ends.
func Part(ctx context.Context, c Config) server.Part {
	a := newAPI(ctx, c)
	return server.Part{Name: "api", Mounts: append(a.all,
		server.Mount{Pattern: "/api/", Handler: server.Missing(a.mux), Need: server.Read, Scope: server.Own(), MaxBody: mostBody}, // all paths without an operation
		server.Mount{Pattern: "GET /openapi.json", Handler: http.HandlerFunc(a.openAPI), Scope: server.Public()},
		server.Mount{Pattern: "GET /apidocs", Handler: http.HandlerFunc(a.docs), Scope: server.Public()},
		server.Mount{Pattern: "GET /spec", Handler: http.HandlerFunc(a.openAPI), Scope: server.Public()}, // the older system's path
		server.Mount{Pattern: "GET /specs", Handler: http.HandlerFunc(a.openAPI), Scope: server.Public()},
	)}
}

func newAPI(ctx context.Context, c Config) *api {
	mux := http.NewServeMux()
	conf := huma.DefaultConfig("Naupegos", c.Version)
	conf.OpenAPIPath, conf.DocsPath, conf.SchemasPath, conf.CreateHooks = "", "", "", nil
	conf.Transformers = []huma.Transformer{mistaken}
	conf.Info.Description = "Deploys and maintains highly available Kubernetes clusters. Errors are problem documents (RFC 9457); their field kind is one of those that exit codes have."
	conf.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	conf.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "naupegos server token create makes one"}}
	conf.Security = []map[string][]string{{"token": {}}}
	a := &api{Config: c, huma: humago.New(mux, conf), mux: mux, stop: ctx}
	// Any stranger may request them, and making them takes 100 ms.
	a.description, a.page = sync.OnceValues(func() ([]byte, error) { return a.huma.OpenAPI().MarshalJSON() }), sync.OnceValues(a.docsPage)
	a.clusters()
	a.views()
	a.figures()
	a.plans()
	a.jobs()
	a.history()
	a.follows()
	a.server()
	for _, t := range []reflect.Type{reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[huma.ErrorDetail]()} { // no answer has them
		delete(conf.Components.Schemas.Map(), schemaName(t, ""))
	}
	return a
}

// mostBody limits a request's body, which may be a document.
const mostBody = 6 << 20

// schemaName names a type in the description, because several packages have types of the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch in := path.Base(t.PkgPath()); {
	case t.Name() == "" || t.PkgPath() == reflect.TypeFor[api]().PkgPath():
		return name
	default:
		return strings.ToUpper(in[:1]) + in[1:] + name
	}
}

// operation describes an operation of the API, except its input and output.
type operation struct {
	id, method, path, summary, text string
	role                            server.Role
	scope                           server.Scope
	within                          time.Duration // time limit; 0: short
}

// add registers an operation as its own mount with role and scope. Its errors become problem documents, and it has a timeout.
func add[I, O any](a *api, o operation, do func(context.Context, *I) (*O, error)) {
	if o.within == 0 {
		o.within = short
	}
	a.all = append(a.all, server.Mount{Pattern: o.method + " " + o.path, Handler: a.mux, Need: o.role, Scope: o.scope, MaxBody: mostBody, Stream: true})
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Description: strings.TrimSpace(o.text + "\n\nNeeds the role " + string(o.role) + "."),
		BodyReadTimeout: -1, MaxBodyBytes: -1, Responses: a.errors(400, 401, 403, 404, 409, 413, 415, 422, 500, 502, 503),
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, o.within)
		defer cancel()
		out, err := do(ctx, in)
		if err != nil {
			told := access.From(ctx).Told(err)
			if fail.Public(err).Error() == told.Error() && told.Error() != err.Error() {
				a.Log.Warn("a request failed", "path", o.path, "by", access.From(ctx).Name, "error", fail.Whole(err).Error())
			}
			return nil, problem.Of(told)
		}
		return out, nil
	})
}

// errors describes the answers with these statuses: problem documents.
func (a *api) errors(statuses ...int) map[string]*huma.Response {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problem.Problem](), true, "Problem")
	all := map[string]*huma.Response{}
	for _, s := range statuses {
		all[strconv.Itoa(s)] = &huma.Response{Description: http.StatusText(s), Content: map[string]*huma.MediaType{problem.ContentType: {Schema: schema}}}
	}
	return all
}

// mistaken replaces huma's own errors, which repeat the request and have no kind, by problem documents.
func mistaken(_ huma.Context, _ string, v any) (any, error) {
	e, is := v.(*huma.ErrorModel)
	if !is {
		return v, nil
	}
	var all []problem.Mistake
	for _, d := range e.Errors {
		switch {
		case d == nil:
		case e.Status == http.StatusUnsupportedMediaType: // the message repeats the header
			all = append(all, problem.Mistake{Message: "the content type is not application/json", Location: "header.Content-Type"})
		default:
			all = append(all, problem.Mistake{Message: d.Message, Location: d.Location})
		}
	}
	return problem.OfRequest(e.Status, e.Detail, all...), nil
}

// view returns the store as the request's operator may see it.
func (a *api) view(ctx context.Context) store.Store { return access.From(ctx).View(a.Store) }

// may refuses an operator without the role on a cluster, and notes the cluster for the audit.
func may(ctx context.Context, need server.Role, cluster string) error {
	access.About(ctx, cluster)
	return access.From(ctx).May(need, cluster)
}

// openAPI serves the description of the API, which is the same for all requests.
func (a *api) openAPI(w http.ResponseWriter, _ *http.Request) {
	data, err := a.description()
	if err != nil {
		problem.Write(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/openapi+json")
	_, _ = w.Write(data) // an error means that the client has left
}

//go:embed docs.html.tmpl
var docsText string

// route is one operation, for people.
type route struct {
	Method, Path string
	*huma.Operation
}

// docs serves the description of the API as a page, without scripts and external resources.
func (a *api) docs(w http.ResponseWriter, _ *http.Request) {
	data, err := a.page()
	if err != nil {
		problem.Write(w, err)
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(data) // an error means that the client has left
}

// docsPage writes the page about the API.
func (a *api) docsPage() ([]byte, error) {
	page, err := template.New("docs").Parse(docsText)
	if err != nil {
		return nil, err
	}
	var routes []route
	for path, item := range a.huma.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "DELETE": item.Delete, "PUT": item.Put} {
			if op != nil {
				routes = append(routes, route{method, path, op})
			}
		}
	}
	slices.SortFunc(routes, func(x, y route) int { return strings.Compare(x.Path+" "+x.Method, y.Path+" "+y.Method) })
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{"Info": a.huma.OpenAPI().Info, "Routes": routes})
	return b.Bytes(), err
}
