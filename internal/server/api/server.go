package api

import (
	"context"
	"net/http"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

// ServerStatus is the status of the servers on one store.
type ServerStatus struct {
	Store    string             `json:"store" doc:"Where the store is"`
	Servers  []store.ServerInfo `json:"servers" doc:"The servers that work on it"`
	Clusters int                `json:"clusters"`
	Machines map[string]int     `json:"machines,omitempty" doc:"Number of physical machines, by state"`
	Jobs     []store.Job        `json:"jobs" doc:"Jobs that have not ended"`
	Duties   []store.Duty       `json:"duties" doc:"Unattended tasks, and their latest results"`
}

// StatusOf reads the status of a store's servers, limited to the clusters that the operator sees.
func StatusOf(ctx context.Context, st store.Store, sees func(cluster string) bool) (*ServerStatus, error) {
	s := &ServerStatus{Store: st.Where(), Jobs: []store.Job{}, Duties: []store.Duty{}}
	var err error
	if s.Servers, err = st.Servers(ctx); err != nil {
		return nil, err
	}
	clusters, err := st.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range clusters {
		if sees(c.Name) {
			s.Clusters++
		}
	}
	if sees("") { // physical machines belong to no cluster
		if s.Machines, err = st.Metal().Counts(ctx); err != nil {
			return nil, err
		}
	}
	jobs, err := st.Jobs(ctx, "", store.KeepJobs)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.State != store.JobEnded && sees(j.Cluster) {
			s.Jobs = append(s.Jobs, j)
		}
	}
	duties, err := st.Duties(ctx, "")
	for _, d := range duties {
		if sees(d.Cluster) {
			s.Duties = append(s.Duties, d)
		}
	}
	return s, err
}

type serverOf struct{ Body *ServerStatus }

func (a *api) server() {
	add(a, operation{id: "server-status", method: http.MethodGet, path: "/api/v1/server", role: server.Read, scope: server.Own(),
		summary: "Get the servers on this store", text: "Lists the running servers, their jobs, and their unattended tasks."}, a.serverStatus)
}

func (a *api) serverStatus(ctx context.Context, _ *struct{}) (*serverOf, error) {
	s, err := StatusOf(ctx, a.view(ctx), access.From(ctx).Sees)
	return &serverOf{s}, err
}
