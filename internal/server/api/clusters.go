package api

import (
	"context"
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
)

// Named is a request about one cluster. It is exported so that huma sees it as an embedded struct.
type Named struct {
	Name string `path:"name" maxLength:"63" doc:"The cluster's name"`
}

type listed struct {
	Body struct {
		Items []operate.Row `json:"items"`
	}
}

type statusOf struct{ Body *report.Status }

type documentOf struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// clusters registers the operations on clusters.
func (a *api) clusters() {
	add(a, operation{id: "list-clusters", method: http.MethodGet, path: "/api/v1/clusters", role: server.Read, scope: server.Own(), within: 2 * time.Minute,
		summary: "List clusters", text: "Lists the clusters that the token may see. With within, the answer includes their health."}, a.list)
	add(a, operation{id: "cluster-status", method: http.MethodGet, path: "/api/v1/clusters/{name}/status", role: server.Read, scope: server.Cluster("name"), within: 2 * time.Minute,
		summary: "Get the state of a cluster's machines, nodes, etcd and certificates"}, a.status)
	add(a, operation{id: "cluster-document", method: http.MethodGet, path: "/api/v1/clusters/{name}/document", role: server.Read, scope: server.Cluster("name"),
		summary: "Get the document that was applied last", text: "YAML, unchanged."}, a.document)
}

func (a *api) list(ctx context.Context, in *struct {
	Within int `query:"within" minimum:"0" maximum:"100" doc:"Seconds to wait for the clusters' health; 0: health is not checked"`
}) (*listed, error) {
	rows, err := operate.Rows(ctx, a.view(ctx))
	if err != nil {
		return nil, err
	}
	out := &listed{}
	out.Body.Items = []operate.Row{}
	who := access.From(ctx)
	for _, r := range rows {
		if who.Sees(r.Name) {
			out.Body.Items = append(out.Body.Items, r)
		}
	}
	if in.Within > 0 {
		operate.AddHealth(ctx, out.Body.Items, time.Duration(in.Within)*time.Second, a.look)
	}
	return out, nil
}

// look observes a cluster.
func (a *api) look(ctx context.Context, name string) (*report.Status, error) {
	return lookAt(ctx, a, name, func(s *operate.Session) (*report.Status, error) { return s.Cluster.Status(ctx) })
}

// lookAt opens a session that only observes a cluster, and returns the result of see.
func lookAt[T any](ctx context.Context, a *api, name string, see func(*operate.Session) (T, error)) (out T, err error) {
	st, err := a.Open(ctx)
	if err != nil {
		return out, err
	}
	s, _, err := operate.OpenNamed(ctx, access.From(ctx).View(st), name, a.Look(name))
	if err != nil {
		return out, err
	}
	out, err = see(s)
	return out, s.CloseWith(err)
}

func (a *api) status(ctx context.Context, in *Named) (*statusOf, error) {
	st, err := a.look(ctx, in.Name)
	return &statusOf{st}, err
}

func (a *api) document(ctx context.Context, in *Named) (*documentOf, error) {
	rec, err := a.Store.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return &documentOf{"application/yaml", rec.Document}, nil
}
