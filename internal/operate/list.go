package operate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// Row is one cluster in a list.
type Row struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	Provider   string    `json:"provider"`
	Kubernetes string    `json:"kubernetes,omitempty"` // version that the document wants
	Health     string    `json:"health"`               // "healthy", "not healthy", or why the health is unknown
	State      string    `json:"state,omitempty"`      // "healthy", "drifted", "unhealthy"; empty: unknown
	Cause      string    `json:"cause,omitempty"`      // of the state
	Remedy     string    `json:"remedy,omitempty"`     // the command that helps
	Created    time.Time `json:"created"`
	Lease      string    `json:"lease,omitempty"` // the lease's verb, holder, liveness and expiry, for people
}

// Rows lists the clusters of a store, without their health.
func Rows(ctx context.Context, st store.Store) ([]Row, error) {
	clusters, err := st.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := st.Leases(ctx)
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	for _, c := range clusters {
		r := Row{Name: c.Name, ID: c.ID, Provider: c.Provider, Created: c.CreatedAt}
		if doc, err := validation.Parse("the stored document of "+c.Name, c.Document); err == nil { // else the health of the row says why
			r.Kubernetes = doc.Spec.Kubernetes.Version
		}
		for _, l := range leases {
			if l.ClusterID == c.ID {
				r.Lease = fmt.Sprintf("%s by %s (alive: %s, expires %s)", l.Title, l.By, l.Alive, l.Expires.Format(time.TimeOnly))
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// AddHealth sets the health in all rows. It calls look for the clusters concurrently, for at most within.
func AddHealth(ctx context.Context, rows []Row, within time.Duration, look func(ctx context.Context, name string) (*report.Status, error)) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var wg sync.WaitGroup
	for i := range rows {
		wg.Go(func() {
			st, err := look(ctx, rows[i].Name)
			switch {
			case ctx.Err() != nil:
				rows[i].Health = fmt.Sprintf("unknown: no answer within %s", within)
			case err != nil:
				rows[i].Health = fmt.Sprintf("unknown (%s)", fail.KindOf(err))
			default:
				rows[i].look(st)
			}
		})
	}
	wg.Wait()
}

// look records what a cluster's status says.
func (r *Row) look(st *report.Status) {
	r.Health = "not healthy"
	if st.Healthy {
		r.Health = "healthy"
	}
	r.State, r.Cause, r.Remedy = string(st.StateWord()), st.Cause, st.Remedy
}

// StateOrHealth returns the state, or why it is unknown.
func (r *Row) StateOrHealth() string {
	if r.State != "" {
		return r.State
	}
	return r.Health
}
