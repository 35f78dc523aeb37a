package work

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

// Drift is the duty of looking whether apply would change something. The others are called by the verb that they carry out.
const Drift = "drift"

// unattended is who does what nobody asked for, in jobs and in the audit.
const unattended = "naupegos (unattended)"

// Times of duties. A look that takes longer ends; a duty that a server holds for longer is another's, which finds its job at work.
const (
	lookTime  = 10 * time.Minute
	proveTime = 25 * time.Minute // a rehearsal has no job that another server would find
	dutyTTL   = 30 * time.Minute
	soonAgain = time.Minute // after what somebody else was in the way of
	mostPause = time.Hour   // before what failed is tried again, unless it is seldomer anyway
	mostDone  = 4           // duties at once
)

// duties are what a document has servers do, and how often.
func duties(doc *v1alpha1.Cluster) map[string]time.Duration {
	u := doc.Spec.Unattended
	all := map[string]time.Duration{Drift: u.Drift.Duration, operate.Renew: u.Renew.Duration, operate.Repair: u.Repair.Duration, operate.Rehearse: u.Rehearse.Duration}
	if u.Autoscale {
		all[operate.Autoscale] = atOnce
	}
	for kind, every := range all {
		if every == 0 {
			delete(all, kind)
		}
	}
	return all
}

// Attend does what clusters' documents have servers do unasked, until ctx ends. Of several servers on a store, one does each.
func (b *Board) Attend(ctx context.Context) error {
	slots := make(chan struct{}, mostDone)
	tick := time.NewTicker(b.c.Tick)
	defer tick.Stop()
	defer func() { // those that are under way see that ctx has ended
		for range mostDone {
			slots <- struct{}{}
		}
		b.answers.Wait()
	}()
	for {
		if err := b.attend(ctx, slots); err != nil && ctx.Err() == nil {
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
func (b *Board) attend(ctx context.Context, slots chan struct{}) error {
	clusters, err := b.c.Store.Clusters(ctx)
	if err != nil {
		return err
	}
	known, err := b.c.Store.Duties(ctx, "")
	if err != nil {
		return err
	}
	last := map[[2]string]store.Duty{}
	for _, d := range known {
		last[[2]string{d.Cluster, d.Kind}] = d
	}
	for _, c := range clusters {
		doc, err := v1alpha1.Parse("the stored document of "+c.Name, c.Document)
		if err != nil { // naupegos status says why; what is known of its duties stays
			maps.DeleteFunc(last, func(key [2]string, _ store.Duty) bool { return key[0] == c.Name })
			continue
		}
		for kind, every := range duties(doc) {
			key := [2]string{c.Name, kind}
			d, there := last[key]
			delete(last, key)
			if there && time.Now().Before(d.Due.Add(-time.Minute)) { // this host's clock may be wrong; the store decides by its own
				continue
			}
			if kind == operate.Autoscale {
				if err := b.beginAnswering(ctx, c.Name, doc.Spec.Unattended.AutoscalePort); err != nil {
					return err
				}
				continue
			}
			if kind == operate.Rehearse && !b.rehearsing.TryLock() {
				continue // each starts etcd and an API server here, and the others have to get along beside them
			}
			done := func() {
				if kind == operate.Rehearse {
					b.rehearsing.Unlock()
				}
			}
			select {
			case slots <- struct{}{}:
			default:
				done()
				return nil // all are busy: the rest comes later
			}
			taken, err := b.c.Store.TakeDuty(ctx, c.Name, kind, dutyTTL)
			if err != nil || taken == nil {
				<-slots
				done()
				if err != nil {
					return err
				}
				continue
			}
			go func() {
				defer func() { done(); <-slots }()
				b.discharge(ctx, taken, every)
			}()
		}
	}
	for key := range last { // those of clusters that are gone, or that want them no longer
		if err := b.c.Store.DropDuty(ctx, key[0], key[1]); err != nil {
			return err
		}
	}
	return nil
}

// discharge does a duty, and notes what came of it: in the store, in the audit where something was changed or found, and in the log.
func (b *Board) discharge(ctx context.Context, d *store.Duty, every time.Duration) {
	log := b.c.Log.With("cluster", d.Cluster, "duty", d.Kind)
	again, err := every, error(nil)
	d.Outcome, d.Message, d.Job = store.DutyNothing, "", ""
	err = b.do(ctx, d)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	switch {
	case err != nil && ctx.Err() != nil: // this server stops: another one shall do it
		d.Outcome, d.Message, again = store.DutyPutOff, "its server was stopped", 0
	case fail.KindOf(err) == fail.Conflict: // somebody is at work on the cluster
		d.Outcome, d.Message, again = store.DutyPutOff, err.Error(), min(every, soonAgain)
	case err != nil:
		d.Failures++
		d.Outcome, d.Message, again = store.DutyFailed, err.Error(), pause(every, d.Failures)
		if d.Kind == operate.Autoscale {
			again = answerPause(d.Failures)
		}
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
	if d.Outcome == store.DutyNothing || d.Outcome == store.DutyPutOff || d.Kind == operate.Autoscale && d.Failures > 1 { // which is tried again soon, and told of
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
func (b *Board) do(ctx context.Context, d *store.Duty) (err error) {
	defer func() {
		if why := recover(); why != nil {
			b.c.Log.Error("a duty panicked", "cluster", d.Cluster, "duty", d.Kind, "panic", why, "stack", string(debug.Stack()))
			err = fail.New(fail.Internal, "this is a defect of naupegos; the server's log says more")
		}
	}()
	switch d.Kind {
	case Drift:
		d.Message, err = b.drift(ctx, d.Cluster)
	case operate.Rehearse:
		d.Message, err = b.rehearse(ctx, d.Cluster)
	case operate.Autoscale:
		d.Message, err = b.answer(ctx, d)
	default:
		err = b.unasked(ctx, d)
	}
	return err
}

// pause is how long what has failed so often waits: a minute at first, then twice as long each time.
func pause(every time.Duration, failures int) time.Duration {
	return min(time.Minute<<min(failures-1, 10), max(every, mostPause))
}

// drift looks whether apply would do something, and says what.
func (b *Board) drift(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	rec, err := b.c.Store.Cluster(ctx, name)
	if err != nil {
		return "", err
	}
	st, err := b.c.Open(ctx)
	if err != nil {
		return "", err
	}
	asked := operate.Asked{Verb: operate.Apply, Document: string(rec.Document), From: "the stored document of " + name}
	begun, err := operate.Begin(ctx, st, asked, b.c.Options(asked, Need{}))
	if err != nil {
		return "", err
	}
	text := begun.Drift()
	return text, begun.Close()
}

// rehearse proves the newest backup unless it is proven, and says which one. It is no job: a cluster has one at a time, and nothing of the cluster
// is touched that others would have to wait for.
func (b *Board) rehearse(ctx context.Context, name string) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, proveTime)
	defer cancel()
	st, err := b.c.Open(ctx)
	if err != nil {
		return "", err
	}
	asked := operate.Asked{Verb: operate.Rehearse, Cluster: name}
	begun, err := operate.Begin(ctx, st, asked, b.c.Options(asked, Need{CarryOut: true}))
	if err != nil {
		return "", err
	}
	defer func() { err = begun.CloseWith(err) }()
	if begun.Idle {
		return "", nil
	}
	done, err := begun.CarryOut(ctx, operate.Terms{Front: nobody{}, Meta: map[string]string{"version": b.c.Version, "by": unattended}})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("backup %s is proven: %d objects, %d Secrets decrypted", done.Proof.Set, done.Proof.Objects, done.Proof.Secrets), nil
}

// nobody is the front of what is done without a job, and without a question.
type nobody struct{}

// Show implements operate.Front.
func (nobody) Show(*plan.Plan, string) error { return nil }

// Agree implements operate.Front.
func (nobody) Agree(string) error { return fail.New(fail.Internal, "nobody is there to be asked") }

// Observer implements operate.Front: the journal has what happens.
func (nobody) Observer() plan.Observer { return show.NewObserver(io.Discard, show.ObserveNone) }

// unasked has a verb carried out by a job where a look shows that there is something for it to do, and waits for its end.
func (b *Board) unasked(ctx context.Context, d *store.Duty) error {
	wanted, note, err := b.wanted(ctx, d.Cluster, d.Kind)
	if err != nil {
		return err
	}
	if !wanted {
		if note != "" {
			return fail.New(fail.Refused, "%s", note)
		}
		return nil
	}
	j, err := b.add(ctx, unattended, d.Cluster, queued{Unasked: true, Order: Order{Asked: operate.Asked{Verb: d.Kind, Cluster: d.Cluster}, Yes: true}})
	if err != nil {
		return err
	}
	d.Job = j.ID
	tick := time.NewTicker(look)
	defer tick.Stop()
	for j.State != store.JobEnded {
		select {
		case <-tick.C:
		case <-ctx.Done(): // the job goes on without this server
			return ctx.Err()
		}
		if j, err = b.c.Store.Job(ctx, d.Job); err != nil {
			return err
		}
	}
	var r Result
	if err := json.Unmarshal(j.Result, &r); err != nil {
		return fail.Wrap(fail.Internal, err, "read what came of the job %s", j.ID)
	}
	if err := r.Err(); err != nil {
		return err
	}
	if d.Message = "nothing was left to be done"; r.Changed {
		d.Message = d.Kind + " is done"
	}
	return nil
}

// wanted looks whether a verb has something to do, without the cluster's lease. note says what nothing can be done about.
func (b *Board) wanted(ctx context.Context, name, verb string) (wanted bool, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	st, err := b.c.Open(ctx)
	if err != nil {
		return false, "", err
	}
	asked := operate.Asked{Verb: verb, Cluster: name}
	begun, err := operate.Begin(ctx, st, asked, b.c.Options(asked, Need{Look: true}))
	if err != nil {
		return false, "", err
	}
	if r := begun.Found.Round; r != nil && begun.Idle && len(r.Stuck) > 0 {
		note = strings.Join(r.Stuck, ", ") + " can't be repaired any further"
	}
	return !begun.Idle, note, begun.Close()
}
