package work

import (
	"context"
	"maps"
	"runtime/debug"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/store"
)

// Drift is the duty of checking whether apply would change anything. The other duties are named after the verbs that they execute.
const Drift = "drift"

// Unattended is the user of unattended tasks, in jobs and in the audit.
const Unattended = "naupegos (unattended)"

// Times of duties.
const (
	dutyTTL   = 30 * time.Minute // a duty that a server holds for longer passes to another server, which finds the running job
	soonAgain = time.Minute      // pause after a conflict with other work on the cluster
	mostDone  = 4                // duties at once
)

// kind is a kind of duty.
type kind struct {
	// every returns the interval in a document; 0: the document does not want the duty.
	every func(u *v1alpha1.Unattended) time.Duration
	// do performs the duty, and describes for people what it did; empty: nothing.
	do  func(b *Board, ctx context.Context, d *store.Duty) (what string, err error)
	ttl time.Duration // how long a server may hold the duty without renewing it
	// lasts: the duty does not end by itself. It takes no room from others, and only the first of successive failures is recorded in the audit.
	lasts bool
	alone bool // only one at a time on this server, for all clusters
	// The first and the longest pause after failures. A duty with a longer interval is not tried more often than that.
	first, most time.Duration
}

// kinds are all duties that documents can request, by name.
var kinds = map[string]*kind{
	Drift: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Drift.Duration }, do: (*Board).drift,
		ttl: dutyTTL, first: time.Minute, most: time.Hour},
	operate.Renew: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Renew.Duration }, do: (*Board).unasked,
		ttl: dutyTTL, first: time.Minute, most: time.Hour},
	operate.Repair: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Repair.Duration }, do: (*Board).unasked,
		ttl: dutyTTL, first: time.Minute, most: time.Hour},
	// It starts etcd and an API server on this host, which must leave room for other work.
	operate.Rehearse: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Rehearse.Duration }, do: (*Board).rehearse,
		ttl: dutyTTL, alone: true, first: time.Minute, most: time.Hour},
	operate.Autoscale: {every: autoscales, do: (*Board).answer,
		ttl: ttl, lasts: true, first: 5 * time.Second, most: 5 * time.Minute},
}

// duties returns the duties that a document requests, with their intervals.
func duties(doc *v1alpha1.Cluster) map[string]time.Duration {
	all := map[string]time.Duration{}
	for name, k := range kinds {
		if every := k.every(&doc.Spec.Unattended); every != 0 {
			all[name] = every
		}
	}
	return all
}

// pause returns the pause after so many failures, which doubles each time.
func (k *kind) pause(every time.Duration, failures int) time.Duration {
	return min(k.first<<min(failures-1, 10), max(every, k.most))
}

// told reports whether the outcome of a duty is recorded in the audit.
func (k *kind) told(d *store.Duty) bool {
	switch d.Outcome {
	case store.DutyDone:
		return true
	case store.DutyFailed:
		return !k.lasts || d.Failures == 1
	}
	return false
}

// duty identifies a duty.
type duty struct{ cluster, kind string }

// Attend performs the unattended tasks that clusters' documents request, until ctx ends. Each task is performed by one of the servers on a store.
func (b *Board) Attend(ctx context.Context) error {
	tick := time.NewTicker(b.c.Tick)
	defer tick.Stop()
	defer b.attending.Wait() // running duties see that ctx has ended
	for {
		if err := b.attend(ctx); err != nil && ctx.Err() == nil {
			b.c.Log.Error("could not look for unattended tasks", "error", err.Error())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// attend begins the due duties, as far as there is room.
func (b *Board) attend(ctx context.Context) error {
	clusters, err := b.c.Store.Clusters(ctx)
	if err != nil {
		return err
	}
	known, err := b.c.Store.Duties(ctx, "")
	if err != nil {
		return err
	}
	last := map[duty]store.Duty{}
	for _, d := range known {
		last[duty{d.Cluster, d.Kind}] = d
	}
	for _, c := range clusters {
		doc, err := validation.Parse("the stored document of "+c.Name, c.Document)
		if err != nil { // naupegos status reports the error; the records of its duties stay
			maps.DeleteFunc(last, func(of duty, _ store.Duty) bool { return of.cluster == c.Name })
			continue
		}
		for name, every := range duties(doc) {
			of := duty{c.Name, name}
			d, there := last[of]
			delete(last, of)
			if there && time.Now().Before(d.Due.Add(-time.Minute)) { // this host's clock may be wrong; the store decides by its own
				continue
			}
			if err := b.begin(ctx, of, every); err != nil {
				return err
			}
		}
	}
	for of := range last { // duties of removed clusters, and duties that documents no longer request
		if kinds[of.kind] == nil { // no document requests it
			continue
		}
		if err := b.c.Store.DropDuty(ctx, of.cluster, of.kind); err != nil {
			return err
		}
	}
	return nil
}

// begin performs a duty in the background, unless it is not due, another server holds it, or this server has no room.
func (b *Board) begin(ctx context.Context, of duty, every time.Duration) error {
	if !b.enter(of) {
		return nil
	}
	d, err := b.c.Store.TakeDuty(ctx, of.cluster, of.kind, kinds[of.kind].ttl)
	if err != nil || d == nil {
		b.leave(of)
		return err
	}
	b.attending.Go(func() {
		defer b.leave(of)
		b.discharge(ctx, d, every)
	})
	return nil
}

// enter reports whether there is room for a duty, and reserves it until leave.
func (b *Board) enter(of duty) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, ending := kinds[of.kind], 0
	for other := range b.doing {
		if other == of || k.alone && other.kind == of.kind {
			return false
		}
		if !kinds[other.kind].lasts {
			ending++
		}
	}
	if !k.lasts && ending >= mostDone {
		return false
	}
	b.doing[of] = true
	return true
}

func (b *Board) leave(of duty) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.doing, of)
}

// discharge performs a duty, and records the outcome in the store, in the log, and for changes, findings and failures in the audit.
func (b *Board) discharge(ctx context.Context, d *store.Duty, every time.Duration) {
	k, log := kinds[d.Kind], b.c.Log.With("cluster", d.Cluster, "duty", d.Kind)
	again := every
	d.Outcome, d.Message, d.Job = store.DutyNothing, "", ""
	what, err := b.do(ctx, k, d)
	d.Message = what
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	switch {
	case err != nil && ctx.Err() != nil: // this server stops, and another one shall perform it
		d.Outcome, d.Message, again = store.DutyPutOff, "its server was stopped", 0
	case fail.KindOf(err) == fail.Conflict: // other work on the cluster is under way
		d.Outcome, d.Message, again = store.DutyPutOff, fail.Public(err).Error(), min(every, soonAgain)
	case err != nil:
		d.Failures++
		d.Outcome, d.Message, again = store.DutyFailed, fail.Public(err).Error(), k.pause(every, d.Failures)
		log.Warn("an unattended task failed", "failures", d.Failures, "again", again.String(), "error", fail.Whole(err).Error())
	default:
		if d.Failures = 0; d.Message != "" || d.Job != "" {
			d.Outcome = store.DutyDone
			log.Info("done unasked", "job", d.Job, "what", d.Message)
		}
	}
	switch err := b.c.Store.EndDuty(bounded, d, again); {
	case fail.KindOf(err) == fail.Conflict:
		log.Info("the outcome of a duty is not recorded", "why", err.Error())
		return
	case err != nil:
		log.Error("the outcome of a duty was not recorded", "error", err.Error())
		return
	}
	if ctx.Err() != nil {
		return
	}
	if b.c.Attended != nil {
		b.c.Attended(*d)
	}
	if !k.told(d) {
		return
	}
	entry := store.AuditEntry{At: time.Now(), Who: Unattended, From: "server", Action: "unattended " + d.Kind, Cluster: d.Cluster, Outcome: "done"}
	if d.Outcome == store.DutyFailed {
		entry.Outcome = "failed: " + fail.KindOf(err).String()
	}
	if err := b.c.Store.Note(bounded, entry); err != nil {
		log.Error("the audit could not be written", "error", err.Error())
	}
}

// do performs a duty. A panic counts as a failure, with its pause: a server that exits would repeat it right after its restart.
func (b *Board) do(ctx context.Context, k *kind, d *store.Duty) (_ string, err error) {
	defer func() {
		if why := recover(); why != nil {
			b.c.Log.Error("a duty panicked", "cluster", d.Cluster, "duty", d.Kind, "panic", why, "stack", string(debug.Stack()))
			err = fail.New(fail.Internal, "this is a defect of naupegos; the server's log has details")
		}
	}()
	return k.do(b, ctx, d)
}
