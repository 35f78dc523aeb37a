package notify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/bits"
	"net/url"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Bounds of what is looked at.
const (
	recentJobs = 100
	recentRuns = 20                 // each is read with its steps
	forgotten  = 7 * 24 * time.Hour // what failed longer ago is not announced any more
	busyFor    = time.Hour          // how long work on a cluster explains that it is not healthy
	unproven   = 8 * 24 * time.Hour // without a rehearsal, as on the pages
	soon       = 30 * 24 * time.Hour
	verySoon   = 7 * 24 * time.Hour
	oftenFails = 2 // failures in a row after which an unattended task is announced: the first is tried again after a minute
)

// seen is what the looks since this server's start found of one need.
type seen struct {
	state, mark string
	looks       int
}

// settled reports whether enough looks have found a need's state.
func (w *Notifier) settled(n *need) bool {
	s := w.seen[n.key]
	if s.state != n.state {
		s = seen{state: n.state}
	}
	if s.mark != n.mark || s.looks == 0 {
		s.looks, s.mark = s.looks+1, n.mark
	}
	w.seen[n.key] = s
	return s.looks >= n.after
}

// view is what one look at the store found.
type view struct {
	at       time.Time
	clusters []store.Cluster
	health   map[string]watch.Health // by cluster ID
	busy     map[string]bool         // by cluster ID: work is under way
	jobs     map[string]*store.Job   // the last one, by cluster name
	runs     map[string]*plan.RunRecord
	duties   []store.Duty
	waiting  int // machines
}

// look reads the store.
func (w *Notifier) look(ctx context.Context) (v view, err error) {
	v = view{at: time.Now(), busy: map[string]bool{}, jobs: map[string]*store.Job{}, runs: map[string]*plan.RunRecord{}}
	st := w.c.Store
	if v.clusters, err = st.Clusters(ctx); err != nil {
		return v, err
	}
	if v.health, err = watch.All(ctx, st); err != nil {
		return v, err
	}
	leases, err := st.Leases(ctx)
	if err != nil {
		return v, err
	}
	for _, l := range leases {
		v.busy[l.ClusterID] = l.Alive != "no" && v.at.Sub(l.Acquired) < busyFor
	}
	jobs, err := st.Jobs(ctx, "", recentJobs)
	if err != nil {
		return v, err
	}
	for i := range slices.Backward(jobs) { // the newest overwrites the others
		if jobs[i].Who != work.Unattended { // its duty is announced
			v.jobs[jobs[i].Cluster] = &jobs[i]
		}
	}
	runs, err := st.Runs(ctx, "", recentRuns)
	if err != nil {
		return v, err
	}
	for i := range slices.Backward(runs) {
		if runs[i].By != work.Unattended {
			v.runs[runs[i].Cluster] = &runs[i]
		}
	}
	if v.duties, err = st.Duties(ctx, ""); err != nil {
		return v, err
	}
	_, v.waiting, err = st.Metal().Find(ctx, metal.Query{Approval: string(registry.Pending), Limit: 1})
	return v, err
}

// needs returns each need with its state, also the empty one. Needs whose state is not known now are missing.
func (w *Notifier) needs(ctx context.Context, v *view) (all []need) {
	for i := range v.clusters {
		c := &v.clusters[i]
		if n, ok := v.work(c); ok {
			all = append(all, n)
		}
		if !v.busy[c.ID] {
			all = append(all, w.health(ctx, c, v)...)
		}
		for _, d := range v.duties {
			if d.Cluster == c.Name && d.Outcome != store.DutyPutOff { // which says nothing of the task
				all = append(all, duty(c, &d))
			}
		}
	}
	all = append(all, machines(v.waiting))
	for i := range all {
		all[i].text, all[i].hint = w.public(all[i].text), w.public(all[i].hint)
	}
	return slices.DeleteFunc(all, func(n need) bool { return !w.settled(&n) })
}

// public hides the paths of the server's own directory in a text.
func (w *Notifier) public(text string) string { return fail.HidePaths(text, w.c.Store.Dir()) }

func key(c *store.Cluster, about string) string { return c.ID + "/" + about }

func page(c *store.Cluster) string { return "/ui/clusters/" + url.PathEscape(c.Name) }

// work returns whether the last job or command of a cluster failed or stopped; ok is false if that is not known, or work is under way.
func (v *view) work(c *store.Cluster) (n need, ok bool) {
	n = need{key: key(c, "work"), event: Failed, cluster: c.Name, calm: true}
	j, r := v.jobs[c.Name], v.runs[c.Name]
	former := c.CreatedAt.Add(-time.Hour) // what is older was done with another cluster of this name
	if j != nil && j.Created.Before(former) {
		j = nil
	}
	if j != nil && (r == nil || !r.Started.After(j.Created) || r.Meta["job"] == j.ID) {
		return v.job(n, j)
	}
	if r == nil || r.Outcome == plan.OutcomeRunning || r.Started.Before(former) {
		return n, false
	}
	ended := r.Ended
	if ended.IsZero() {
		ended = r.Started
	}
	if r.Outcome == plan.OutcomeSucceeded || v.at.Sub(ended) > forgotten {
		return n, r.Outcome == plan.OutcomeSucceeded
	}
	n.path, n.hint = "/ui/runs/"+r.ID, "naupegos history "+c.Name+" "+r.ID
	n.text = fmt.Sprintf("%s of cluster %s, requested by %s, failed", r.Title, c.Name, r.By)
	if r.Outcome == plan.OutcomeInterrupted || r.Outcome == plan.OutcomeGone {
		n.event, n.hint = Stopped, continues
		n.text = fmt.Sprintf("%s of cluster %s, requested by %s, stopped in the middle: %s", r.Title, c.Name, r.By, r.Outcome)
	}
	n.state = digest(n.text)
	return n, true
}

// digest is the state of failures: the same failure, repeated, is not announced again.
func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }

const continues = "run the same command again: it continues"

func (v *view) job(n need, j *store.Job) (need, bool) {
	if j.State != store.JobEnded {
		return n, false
	}
	var r work.Result
	if err := json.Unmarshal(j.Result, &r); err != nil {
		return n, false
	}
	if r.Kind == "" || v.at.Sub(j.Ended) > forgotten {
		return n, r.Kind == ""
	}
	n.path, n.hint = "/ui/jobs/"+j.ID, "naupegos history "+j.Cluster
	n.text = fmt.Sprintf("%s of cluster %s, requested by %s, failed: %s", j.Title, j.Cluster, j.Who, r.Error)
	if fail.Named(r.Kind) == fail.Interrupted {
		n.event, n.hint = Stopped, continues
		n.text = fmt.Sprintf("%s of cluster %s, requested by %s, stopped in the middle: %s", j.Title, j.Cluster, j.Who, r.Error)
	}
	n.state = digest(n.text)
	return n, true
}

// apart are the kinds of causes that have events of their own: they are not announced a second time as the cluster's health.
var apart = []string{"backup-overdue", "certificate-due", "certificate-expired"}

// causes returns the causes of a cluster's state. It reads the report only after a new look.
func (w *Notifier) causes(ctx context.Context, c *store.Cluster, h *watch.Health) ([]report.Cause, error) {
	if was, ok := w.reports[c.ID]; ok && was.looked.Equal(h.Looked) {
		return was.causes, nil
	}
	whole, err := watch.Of(ctx, w.c.Store, c.ID)
	if err != nil || whole.Status == nil {
		return nil, err
	}
	w.reports[c.ID] = reported{h.Looked, whole.Status.Causes}
	return whole.Status.Causes, nil
}

// reported are the causes of one look.
type reported struct {
	looked time.Time
	causes []report.Cause
}

// health returns the needs that a look at a cluster found.
func (w *Notifier) health(ctx context.Context, c *store.Cluster, v *view) (all []need) {
	h, ok := v.health[c.ID]
	if !ok || h.Looked.IsZero() {
		return nil
	}
	n := need{key: key(c, "health"), event: Health, cluster: c.Name, path: page(c), after: 2, mark: h.Looked.String(), hint: command(h.Remedy)}
	if h.State == watch.Unknown {
		n.state, n.shown, n.text = h.State, h.State, fmt.Sprintf("Cluster %s does not answer: %s", c.Name, pathless(h.Cause))
		return []need{n}
	}
	causes, err := w.causes(ctx, c, &h)
	if err != nil {
		w.complain("the health of a cluster could not be read", "cluster", c.Name, "error", err.Error())
		return nil
	}
	state, cause := watch.Healthy, report.Cause{}
	if i := slices.IndexFunc(causes, func(f report.Cause) bool { return !slices.Contains(apart, f.Kind) }); i >= 0 {
		state, cause = string(causes[i].State), causes[i] // the most severe comes first
	}
	if n.shown = state; state == watch.Healthy {
		n.hint, n.text = "", fmt.Sprintf("Cluster %s is healthy again", c.Name)
	} else {
		n.state, n.hint, n.text = state, command(cause.Remedy), fmt.Sprintf("Cluster %s is %s: %s", c.Name, state, cause.Text)
	}
	if state == watch.Unhealthy {
		n.after = 1
	}
	all = append(all, n, w.backup(c, &h, causes, v.at))
	if at := h.Summary.Certificate; !at.IsZero() {
		all = append(all, certificate(c, &h, at.Sub(v.at)))
	}
	return all
}

func (w *Notifier) backup(c *store.Cluster, h *watch.Health, causes []report.Cause, now time.Time) need {
	n := need{key: key(c, "backup"), event: Backup, cluster: c.Name, path: page(c), mark: h.Looked.String(), after: 2}
	s := &h.Summary
	switch {
	case slices.ContainsFunc(causes, func(f report.Cause) bool { return f.Kind == "backup-overdue" }):
		n.state, n.text, n.hint = "overdue", fmt.Sprintf("The backup on schedule of cluster %s is overdue", c.Name), "naupegos backup create "+c.Name
	case !s.Backup.IsZero() && now.Sub(s.Proven) > unproven && now.Sub(c.CreatedAt) > unproven:
		n.state, n.text, n.hint = "unproven", fmt.Sprintf("No backup of cluster %s was rehearsed in the last 8 days", c.Name), "naupegos backup rehearse "+c.Name
	default:
		n.text = fmt.Sprintf("The backups of cluster %s are made and rehearsed again", c.Name)
	}
	return n
}

func certificate(c *store.Cluster, h *watch.Health, left time.Duration) need {
	n := need{key: key(c, "certificate"), event: Certificate, cluster: c.Name, path: page(c), hint: "naupegos renew " + c.Name}
	n.text = fmt.Sprintf("Certificate %s of cluster %s expires in %s", h.Summary.CertificateOf, c.Name, words.Count(int(left/(24*time.Hour)), "day", "days"))
	switch {
	case left <= 0:
		n.state, n.level = "expired", 3
		n.text = fmt.Sprintf("Certificate %s of cluster %s has expired", h.Summary.CertificateOf, c.Name)
	case left < verySoon:
		n.state, n.level = "very soon", 2
	case left < soon:
		n.state, n.level = "soon", 1
	default:
		n.text, n.hint = fmt.Sprintf("The certificates of cluster %s are renewed", c.Name), ""
	}
	return n
}

func duty(c *store.Cluster, d *store.Duty) need {
	n := need{key: key(c, "unattended/"+d.Kind), event: Unattended, cluster: c.Name, path: page(c), hint: "naupegos server status"}
	n.text = fmt.Sprintf("The unattended task %s of cluster %s works again", d.Kind, c.Name)
	if d.Failures >= oftenFails {
		n.state, n.text = "failing", fmt.Sprintf("The unattended task %s of cluster %s has failed %d times in a row: %s", d.Kind, c.Name, d.Failures, pathless(d.Message))
	}
	return n
}

// machines announces the number of machines that wait, and again only when it has doubled: strangers can make machines appear.
func machines(waiting int) need {
	n := need{key: "server/machines", event: Machines, path: "/ui/approvals", hint: "naupegos machine list --approval pending", calm: true}
	if waiting > 0 {
		n.level = bits.Len(uint(waiting))
		n.state, n.text = fmt.Sprint("level ", n.level), words.Count(waiting, "physical machine waits", "physical machines wait")+" for approval"
	}
	return n
}

// server returns the needs of the server itself, which it knows without the store.
func (w *Notifier) server(ctx context.Context) []need {
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	w.round++
	mark := fmt.Sprint(w.round)
	st := need{key: "server/store", event: Store, path: "/ui/", after: 2, mark: mark, text: "The server's store can be written again"}
	if err := w.c.Ping(bounded); err != nil && ctx.Err() == nil {
		st.state, st.hint = "broken", "the server's log has the cause, such as a full disk or a database that is away"
		st.text = "The server's store can't be written: " + w.public(fail.Public(err).Error())
	}
	audit := need{key: "server/audit", event: Store, path: "/ui/", after: 2, mark: mark, text: "The audit log can be written again"}
	if w.c.Unwritten() {
		audit.state, audit.hint = "broken", "the server's log has the cause, such as a full disk"
		audit.text = "The audit log can't be written, so the server refuses changes"
	}
	all := []need{st, audit}
	return slices.DeleteFunc(all, func(n need) bool { return !w.settled(&n) })
}
