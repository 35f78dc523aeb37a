package access

import (
	"context"
	"encoding/json"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
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
		all[i].By, all[i].Holder = by(all[i].By, all[i].Holder), ""
	}
	return all, err
}

// Run implements store.Store.
func (v *view) Run(ctx context.Context, id string) (*plan.RunRecord, error) {
	r, err := v.Store.Run(ctx, id)
	if err == nil {
		r.By, r.Holder = by(r.By, r.Holder), ""
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
	}
	return all, err
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
