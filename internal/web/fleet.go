package web

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/store"
)

// fleetRuns is the number of latest runs, of all clusters together, that the lists use.
const fleetRuns = 60

// stale is the age from which a recorded health is shown with a warning.
const stale = 5 * time.Minute

// clusterRow is a cluster in a list.
type clusterRow struct {
	ID, Name, Provider, Kubernetes string
	Created                        time.Time
	Busy                           string // verb of the running job or lease
	Job                            string // ID of the server's job; empty: not a job of a server
	Done, Steps                    int    // ended and all steps of the running run; Steps is 0 if unknown
	Last                           *plan.RunRecord
	Paused                         *plan.RunRecord // run after which the cluster is paused; nil: it is not
	Health                         watch.Health    `json:"-"` // a look changes its times
	Seen                           seen
}

// seen is the part of a health that lists show.
type seen struct {
	State, Cause, Remedy string
	Old                  bool
	Summary              watch.Summary
}

// does returns the title of what runs on the cluster, or "paused".
func (c *clusterRow) does() string {
	if c.Busy == "" && c.Paused != nil {
		return "paused"
	}
	return c.Busy
}

// last returns the cluster's last run, or the zero value.
func (c *clusterRow) last() plan.RunRecord {
	if c.Last == nil {
		return plan.RunRecord{}
	}
	return *c.Last
}

// The templates use CertificateDays and Percent.

// CertificateDays returns the days until the first certificate expires; -1 if unknown.
func (c *clusterRow) CertificateDays() int {
	if c.Health.Summary.Certificate.IsZero() {
		return -1
	}
	return int(time.Until(c.Health.Summary.Certificate).Hours() / 24)
}

// Percent returns the completed share of the running steps.
func (c *clusterRow) Percent() int {
	if c.Steps == 0 {
		return 0
	}
	return 100 * c.Done / c.Steps
}

// fleet is the data of lists of all clusters that an operator may see.
type fleet struct {
	Rows []clusterRow
	Runs []plan.RunRecord // newest first, without steps
	Jobs []store.Job      // not ended
}

// fleet reads the data from the store, without a look at any cluster.
func (p *Pages) fleet(ctx context.Context, who *access.Operator) (f fleet, err error) {
	clusters, err := p.c.Store.Clusters(ctx)
	if err != nil {
		return f, err
	}
	leases, err := p.c.Store.Leases(ctx)
	if err != nil {
		return f, err
	}
	healths, err := watch.All(ctx, who.View(p.c.Store))
	if err != nil {
		return f, err
	}
	runs, err := who.View(p.c.Store).Runs(ctx, "", fleetRuns)
	if err != nil {
		return f, err
	}
	jobs, err := who.View(p.c.Store).Jobs(ctx, "", store.KeepJobs)
	if err != nil {
		return f, err
	}
	of := map[string][]plan.RunRecord{}
	for _, r := range runs {
		if who.Sees(r.Cluster) {
			of[r.Cluster] = append(of[r.Cluster], r)
		}
	}
	for _, j := range jobs {
		if j.State != store.JobEnded && who.Sees(j.Cluster) {
			f.Jobs = append(f.Jobs, j)
		}
	}
	for i := range clusters {
		if c := &clusters[i]; who.Sees(c.Name) {
			f.Rows = append(f.Rows, rowOfCluster(c, leases, healths[c.ID], of[c.Name], f.Jobs))
		}
	}
	for i := range runs {
		if who.Sees(runs[i].Cluster) {
			runs[i].Steps = nil
			f.Runs = append(f.Runs, runs[i])
		}
	}
	return f, nil
}

// rowOfCluster summarizes one cluster from its latest runs and the jobs that have not ended.
func rowOfCluster(c *store.Cluster, leases []store.LeaseInfo, h watch.Health, runs []plan.RunRecord, jobs []store.Job) clusterRow {
	if h.State == "" {
		h.State = watch.Unknown
	}
	row := clusterRow{ID: c.ID, Name: c.Name, Provider: c.Provider, Kubernetes: env.ReleaseOf(c.Facts), Created: c.CreatedAt, Busy: verbOn(leases, c.ID), Paused: pauseOf(runs), Health: h}
	row.Seen = seen{h.State, h.Cause, h.Remedy, isOld(h), h.Summary}
	if len(runs) > 0 {
		last := runs[0]
		if last.Outcome == plan.OutcomeRunning {
			row.Done, row.Steps = done(last), len(last.Steps)
		}
		last.Steps = nil
		row.Last = &last
	}
	if i := slices.IndexFunc(jobs, func(j store.Job) bool { return j.Cluster == c.Name }); i >= 0 {
		if row.Job = jobs[i].ID; row.Busy == "" {
			row.Busy = jobs[i].Title
		}
	}
	return row
}

// isOld reports whether a health may be out of date.
func isOld(h watch.Health) bool { return !h.Looked.IsZero() && time.Since(h.Looked) > stale }

// verbOn returns the title of the lease on a cluster, or "".
func verbOn(leases []store.LeaseInfo, id string) string {
	i := slices.IndexFunc(leases, func(l store.LeaseInfo) bool { return l.ClusterID == id && l.Alive != "no" })
	if i < 0 {
		return ""
	}
	return leases[i].Title
}

// sentence describes a run in words.
func sentence(r *plan.RunRecord) string {
	who, what := r.By, r.Heading()
	switch r.Outcome {
	case plan.OutcomeRunning:
		return fmt.Sprintf("%s: %s is running", who, what)
	case plan.OutcomeSucceeded:
		return fmt.Sprintf("%s: %s, %s", who, what, took(r))
	}
	return fmt.Sprintf("%s: %s %s after %s", who, what, r.Outcome, took(r))
}

// took returns how long a run took, or "" while it runs.
func took(r *plan.RunRecord) string {
	if r.Ended.IsZero() {
		return ""
	}
	return span(r.Ended.Sub(r.Started))
}

// MarshalJSON is for the digest of a live page. It omits changes that every look makes.
func (s seen) MarshalJSON() ([]byte, error) {
	type plain seen
	s.Summary.Backup, s.Summary.Proven = s.Summary.Backup.Truncate(time.Minute), s.Summary.Proven.Truncate(time.Minute)
	return json.Marshal(plain(s))
}
