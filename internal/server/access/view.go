package access

import (
	"context"
	"encoding/json"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
)

// View returns the store as the operator may see it. To an operator of one cluster it shows no hosts, users and processes of servers and of commands on
// their hosts.
func (o Operator) View(st store.Store) store.Store {
	if o.Cluster == "" {
		return st
	}
	return &view{st}
}

// view is a store without processes.
type view struct{ store.Store }

// by returns the user of a run or lease without the process: ViaHost if only the process is known.
func by(user, process string) string {
	if user == process {
		return ViaHost
	}
	return user
}

// Runs implements store.Store.
func (v *view) Runs(ctx context.Context, cluster string, limit int) ([]plan.RunRecord, error) {
	all, err := v.Store.Runs(ctx, cluster, limit)
	for i := range all {
		v.stripRun(&all[i])
	}
	return all, err
}

// stripRun removes what a run's record says of the server.
func (v *view) stripRun(r *plan.RunRecord) {
	r.By, r.Holder = by(r.By, r.Holder), ""
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Err = v.hide(s.Err)
		for j := range s.Retries {
			s.Retries[j].Err = v.hide(s.Retries[j].Err)
		}
	}
}

// Run implements store.Store.
func (v *view) Run(ctx context.Context, id string) (*plan.RunRecord, error) {
	r, err := v.Store.Run(ctx, id)
	if err == nil {
		v.stripRun(r)
	}
	return r, err
}

// Leases implements store.Store.
func (v *view) Leases(ctx context.Context) ([]store.LeaseInfo, error) {
	all, err := v.Store.Leases(ctx)
	for i := range all {
		all[i].By, all[i].Holder = by(all[i].By, all[i].Holder), ""
	}
	return all, err
}

// Jobs implements store.Jobs.
func (v *view) Jobs(ctx context.Context, cluster string, limit int) ([]store.Job, error) {
	all, err := v.Store.Jobs(ctx, cluster, limit)
	for i := range all {
		v.strip(&all[i])
	}
	return all, err
}

// strip removes what a job's record says of the server.
func (v *view) strip(j *store.Job) {
	j.Holder = ""
	j.Result = json.RawMessage(v.hide(string(j.Result))) // where a backup is, for example
}

// hide hides the paths of the store's directory.
func (v *view) hide(text string) string { return hide(v.Store, text) }

// Hide removes the paths of the server's own directory from a text for the operator.
func (o Operator) Hide(st store.Store, text string) string {
	if o.Cluster == "" {
		return text
	}
	return hide(st, text)
}

// Shown returns an answer as the operator may see it: with no text that names a path of the server's own directory.
func Shown[T any](o Operator, st store.Store, answer *T) (*T, error) {
	if o.Cluster == "" || answer == nil {
		return answer, nil
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write an answer down")
	}
	clean := hide(st, string(raw))
	if clean == string(raw) {
		return answer, nil
	}
	answer = new(T)
	if err := json.Unmarshal([]byte(clean), answer); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "hide the server's paths in an answer")
	}
	return answer, nil
}

func hide(st store.Store, text string) string { return fail.HidePaths(text, st.Dir()) }

// Job implements store.Jobs.
func (v *view) Job(ctx context.Context, id string) (*store.Job, error) {
	j, err := v.Store.Job(ctx, id)
	if err == nil {
		v.strip(j)
	}
	return j, err
}

// Duties implements store.Servers.
func (v *view) Duties(ctx context.Context, cluster string) ([]store.Duty, error) {
	all, err := v.Store.Duties(ctx, cluster)
	for i := range all {
		if all[i].Holder != "" { // it says that the duty is under way
			all[i].Holder = "a server"
		}
		all[i].Message = v.hide(all[i].Message)
	}
	return all, err
}

// JobLines implements store.Jobs.
func (v *view) JobLines(ctx context.Context, id string, after int64, limit int) ([]store.JobLine, error) {
	all, err := v.Store.JobLines(ctx, id, after, limit)
	for i := range all {
		all[i].Line = v.hide(all[i].Line)
	}
	return all, err
}

// Health implements store.Store.
func (v *view) Health() health.Store { return &healthView{v.Store.Health(), v} }

// healthView is the health of clusters without paths of the server.
type healthView struct {
	health.Store
	v *view
}

// All implements health.Store.
func (h *healthView) All(ctx context.Context) (map[string]health.Record, error) {
	all, err := h.Store.All(ctx)
	for id, r := range all {
		h.strip(&r)
		all[id] = r
	}
	return all, err
}

// Get implements health.Store.
func (h *healthView) Get(ctx context.Context, clusterID string) (*health.Record, error) {
	r, err := h.Store.Get(ctx, clusterID)
	if r != nil {
		h.strip(r)
	}
	return r, err
}

func (h *healthView) strip(r *health.Record) {
	r.Cause = h.v.hide(r.Cause)
	r.Summary, r.Report = json.RawMessage(h.v.hide(string(r.Summary))), json.RawMessage(h.v.hide(string(r.Report)))
}

// Servers implements store.Servers.
func (v *view) Servers(ctx context.Context) ([]store.ServerInfo, error) {
	all, err := v.Store.Servers(ctx)
	for i := range all {
		all[i].Holder = ""
	}
	return all, err
}

// Where implements store.Store.
func (v *view) Where() string { return "" }
