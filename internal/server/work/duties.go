package work

import (
	"context"
	"maps"
	"runtime/debug"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/store"
)

// Drift is the duty of looking whether apply would change something. The others are called by the verb that they carry out.
const Drift = "drift"

// unattended is who does what nobody asked for, in jobs and in the audit.
const unattended = "naupegos (unattended)"

// Times of duties.
const (
	dutyTTL   = 30 * time.Minute // a duty that a server holds for longer is another's, which finds its job at work
	soonAgain = time.Minute      // after what somebody else was in the way of
	mostDone  = 4                // duties at once
)

// kind is a kind of duty.
type kind struct {
	// every is how often a document has it done; 0: it has not.
	every func(u *v1alpha1.Unattended) time.Duration
	// do does it, and says for people what was done; empty: nothing.
	do  func(b *Board, ctx context.Context, d *store.Duty) (what string, err error)
	ttl time.Duration // how long it is the server's that has it, unless that keeps it
	// lasts: it does not end by itself. It takes no room of those that do, and of failures that follow each other the first alone is for the audit.
	lasts bool
	alone bool // one at a time here, of all clusters
	// Pauses after a failure: at first, and at most. What is done seldomer anyway is not tried more often.
	first, most time.Duration
}

// kinds are all that documents can have servers do, by name.
var kinds = map[string]*kind{
	Drift: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Drift.Duration }, do: (*Board).drift,
		ttl: dutyTTL, first: time.Minute, most: time.Hour},
	operate.Renew: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Renew.Duration }, do: (*Board).unasked,
		ttl: dutyTTL, first: time.Minute, most: time.Hour},
	operate.Repair: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Repair.Duration }, do: (*Board).unasked,
		ttl: dutyTTL, first: time.Minute, most: time.Hour},
	// It starts etcd and an API server here, and the others have to get along beside them.
	operate.Rehearse: {every: func(u *v1alpha1.Unattended) time.Duration { return u.Rehearse.Duration }, do: (*Board).rehearse,
		ttl: dutyTTL, alone: true, first: time.Minute, most: time.Hour},
	operate.Autoscale: {every: autoscales, do: (*Board).answer,
		ttl: ttl, lasts: true, first: 5 * time.Second, most: 5 * time.Minute},
}

// duties are what a document has servers do, and how often.
func duties(doc *v1alpha1.Cluster) map[string]time.Duration {
	all := map[string]time.Duration{}
	for name, k := range kinds {
		if every := k.every(&doc.Spec.Unattended); every != 0 {
			all[name] = every
		}
	}
	return all
}

// pause is how long what has failed so often waits: twice as long each time.
func (k *kind) pause(every time.Duration, failures int) time.Duration {
	return min(k.first<<min(failures-1, 10), max(every, k.most))
}

// told reports whether what came of a duty is for the audit.
func (k *kind) told(d *store.Duty) bool {
	switch d.Outcome {
	case store.DutyDone:
		return true
	case store.DutyFailed:
		return !k.lasts || d.Failures == 1
	}
	return false
}

// duty names a duty.
type duty struct{ cluster, kind string }

// Attend does what clusters' documents have servers do unasked, until ctx ends. Of several servers on a store, one does each.
func (b *Board) Attend(ctx context.Context) error {
	tick := time.NewTicker(b.c.Tick)
	defer tick.Stop()
	defer b.attending.Wait() // what is under way sees that ctx has ended
	for {
		if err := b.attend(ctx); err != nil && ctx.Err() == nil {
			b.c.Log.Error("what is to be done unasked could not be looked for", "error", err.Error())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// attend begins what is due, as far as there is room.
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
		doc, err := v1alpha1.Parse("the stored document of "+c.Name, c.Document)
		if err != nil { // naupegos status says why; what is known of its duties stays
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
	for of := range last { // those of clusters that are gone, or that want them no longer
		if err := b.c.Store.DropDuty(ctx, of.cluster, of.kind); err != nil {
			return err
		}
	}
	return nil
}

// begin has a duty done beside, unless it is not due, another server has it, or there is no room here now.
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

// enter reports whether there is room for a duty here, and keeps it until leave.
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

// discharge does a duty, and notes what came of it: in the store, in the audit where something was changed or found, and in the log.
func (b *Board) discharge(ctx context.Context, d *store.Duty, every time.Duration) {
	k, log := kinds[d.Kind], b.c.Log.With("cluster", d.Cluster, "duty", d.Kind)
	again := every
	d.Outcome, d.Message, d.Job = store.DutyNothing, "", ""
	what, err := b.do(ctx, k, d)
	d.Message = what
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	switch {
	case err != nil && ctx.Err() != nil: // this server stops: another one shall do it
		d.Outcome, d.Message, again = store.DutyPutOff, "its server was stopped", 0
	case fail.KindOf(err) == fail.Conflict: // somebody is at work on the cluster
		d.Outcome, d.Message, again = store.DutyPutOff, err.Error(), min(every, soonAgain)
	case err != nil:
		d.Failures++
		d.Outcome, d.Message, again = store.DutyFailed, err.Error(), k.pause(every, d.Failures)
		log.Warn("what was to be done unasked failed", "failures", d.Failures, "again", again.String(), "error", d.Message)
	default:
		if d.Failures = 0; d.Message != "" || d.Job != "" {
			d.Outcome = store.DutyDone
			log.Info("done unasked", "job", d.Job, "what", d.Message)
		}
	}
	switch err := b.c.Store.EndDuty(bounded, d, again); {
	case fail.KindOf(err) == fail.Conflict:
		log.Info("what came of a duty is not recorded", "why", err.Error())
		return
	case err != nil:
		log.Error("what came of a duty was not recorded", "error", err.Error())
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
	entry := store.AuditEntry{At: time.Now(), Who: unattended, From: "server", Action: "unattended " + d.Kind, Cluster: d.Cluster, Outcome: "done"}
	if d.Outcome == store.DutyFailed {
		entry.Outcome = "failed: " + fail.KindOf(err).String()
	}
	if err := b.c.Store.Note(bounded, entry); err != nil {
		log.Error("the audit could not be written", "error", err.Error())
	}
}

// do does a duty. What panics has failed, and waits: a server that ends of it would do it again as soon as it runs.
func (b *Board) do(ctx context.Context, k *kind, d *store.Duty) (_ string, err error) {
	defer func() {
		if why := recover(); why != nil {
			b.c.Log.Error("a duty panicked", "cluster", d.Cluster, "duty", d.Kind, "panic", why, "stack", string(debug.Stack()))
			err = fail.New(fail.Internal, "this is a defect of naupegos; the server's log says more")
		}
	}()
	return k.do(b, ctx, d)
}
