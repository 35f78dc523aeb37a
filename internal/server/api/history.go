package api

import (
	"context"
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

type runList struct {
	Body struct {
		Items []plan.RunRecord `json:"items"`
	}
}

type runOf struct{ Body *plan.RunRecord }

type auditList struct {
	Body struct {
		Items []store.AuditEntry `json:"items"`
	}
}

func (a *api) history() {
	add(a, operation{id: "list-runs", method: http.MethodGet, path: "/api/v1/runs", role: server.Read, scope: server.Own(), summary: "List runs, the newest first",
		text: "The journal of one cluster or of all, with the runs of servers and of commands on the same store. Runs outlive their cluster."}, a.listRuns)
	add(a, operation{id: "run", method: http.MethodGet, path: "/api/v1/runs/{id}", role: server.Read, scope: server.Found("run", "id", a.clusterOfRun), summary: "Get a run's steps"}, a.run)
	add(a, operation{id: "audit", method: http.MethodGet, path: "/api/v1/audit", role: server.Admin, scope: server.Own(), summary: "Search the audit",
		text: "Lists changes and refusals, the newest first: who, what, when, from where, and the outcome."}, a.audit)
}

func (a *api) listRuns(ctx context.Context, in *struct {
	Cluster string `query:"cluster" maxLength:"63" doc:"Only runs of this cluster"`
	Limit   int    `query:"limit" minimum:"0" maximum:"500" doc:"Maximum number; 0: 20"`
}) (*runList, error) {
	if in.Cluster == "" {
		in.Cluster = access.From(ctx).Cluster
	}
	if in.Cluster != "" {
		if err := may(ctx, server.Read, in.Cluster); err != nil {
			return nil, err
		}
	}
	runs, err := a.view(ctx).Runs(ctx, in.Cluster, in.Limit)
	out := &runList{}
	if out.Body.Items = runs; runs == nil {
		out.Body.Items = []plan.RunRecord{}
	}
	if err == nil && in.Cluster != "" && len(runs) == 0 { // distinguishes a cluster without runs from an unknown one
		_, err = a.Store.Cluster(ctx, in.Cluster)
	}
	return out, err
}

func (a *api) run(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"64" doc:"The run's ID in the journal"`
}) (*runOf, error) {
	run, err := a.view(ctx).Run(ctx, in.ID)
	return &runOf{run}, err
}

// clusterOfRun returns the cluster of a run.
func (a *api) clusterOfRun(r *http.Request, id string) (string, error) {
	run, err := a.Store.Run(r.Context(), id)
	if err != nil {
		return "", err
	}
	return run.Cluster, nil
}

func (a *api) audit(ctx context.Context, in *struct {
	Who     string    `query:"who" maxLength:"200" doc:"Only entries of this operator: a token's name and ID, as in the audit"`
	Cluster string    `query:"cluster" maxLength:"63" doc:"Only entries about this cluster"`
	Outcome string    `query:"outcome" maxLength:"100" doc:"Only entries with this outcome: done, or refused: and the status"`
	Since   time.Time `query:"since" doc:"Only newer entries"`
	Limit   int       `query:"limit" minimum:"0" maximum:"1000" doc:"Maximum number; 0: 100"`
}) (*auditList, error) {
	if err := may(ctx, server.Admin, in.Cluster); err != nil {
		return nil, err
	}
	all, err := a.Store.Audit(ctx, store.AuditQuery{Who: in.Who, Cluster: in.Cluster, Outcome: in.Outcome, Since: in.Since, Limit: in.Limit})
	out := &auditList{}
	out.Body.Items = all
	return out, err
}
