package work

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
)

// job is a job that this server runs.
type job struct {
	*store.Job
	b     *Board
	order queued
	soft  chan struct{} // closed: end after the running steps
	end   context.CancelCauseFunc
	once  sync.Once
	lines *lines
	more  bool // more was found to do than was agreed to
}

// errLost ends a job that another server has taken over, or that could not be renewed.
var errLost = fail.New(fail.Conflict, "the job was lost: this server was suspended, and another one may continue it")

// carryOut runs a job, from its claim to its end.
func (b *Board) carryOut(ctx context.Context, claimed *store.Job) {
	hard, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	j := &job{Job: claimed, b: b, soft: make(chan struct{}), end: end}
	j.lines = newLines(j)
	log := b.c.Log.With("job", j.ID, "verb", j.Verb, "cluster", j.Cluster, "by", j.Who, "attempt", j.Generation)
	log.Info("job taken")
	j.obey(claimed.Stop) // the request to stop may have come before the claim
	kept := make(chan struct{})
	go func() { defer close(kept); j.keep(ctx, hard) }()
	done, err := j.attempt(hard)
	end(nil)
	<-kept
	j.lines.close()
	returned, unsettled := j.settle(ctx, done, err)
	switch {
	case unsettled != nil:
		log.Error("the end of the job was not recorded; its lease ends by itself", "error", unsettled.Error())
		return
	case returned:
		log.Info("job returned to the queue: this server stops, and another one or its next start continues it")
		return
	}
	b.tellChanged()
	if b.c.Ended != nil {
		b.c.Ended(j.Verb, err)
	}
	if err != nil {
		log.Warn("job ended", "error", fail.Whole(err).Error())
	} else {
		log.Info("job ended", "changed", done.Changed)
	}
}

// settle records the outcome of a job. If the job ended only because this server stops, settle returns it for another server to continue.
func (j *job) settle(ctx context.Context, done operate.Done, err error) (returned bool, unsettled error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if ctx.Err() != nil && fail.KindOf(err) == fail.Interrupted && j.Stop == store.GoOn {
		return true, j.b.c.Store.ReturnJob(bounded, j.Job)
	}
	r := Result{Done: done, More: j.more}
	if err != nil {
		r.Kind, r.Error = fail.KindOf(err).String(), fail.Public(err).Error() // the log has the paths
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return false, fail.Wrap(fail.Internal, err, "store the outcome of the job")
	}
	return false, j.b.c.Store.EndJob(bounded, j.Job, raw)
}

// keep renews the job until hard ends, and stops the job on request.
func (j *job) keep(ctx, hard context.Context) {
	poked := make(chan struct{}, 1)
	j.b.mu.Lock()
	j.b.running[j.ID] = poked
	j.b.mu.Unlock()
	defer func() {
		j.b.mu.Lock()
		delete(j.b.running, j.ID)
		j.b.mu.Unlock()
	}()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	stopping, drained := ctx.Done(), (<-chan time.Time)(nil)
	last := time.Now()
	for {
		select {
		case <-hard.Done():
			return
		case <-stopping:
			stopping, drained = nil, time.After(j.b.c.Drain)
			j.stopSoft()
			continue
		case <-drained:
			j.end(context.Canceled)
		case <-tick.C:
		case <-poked:
		}
		began := time.Now()
		stop, err := j.b.c.Store.BeatJob(hard, j.Job, ttl)
		switch {
		case hard.Err() != nil:
			return
		case fail.KindOf(err) == fail.Conflict || err != nil && time.Since(last) > ttl*2/3:
			j.end(errLost)
			return
		case err != nil:
			j.b.c.Log.Warn("the job could not be kept; trying again", "job", j.ID, "error", err.Error())
			continue
		}
		last = began
		j.obey(stop)
	}
}

// obey stops the job as far as requested.
func (j *job) obey(stop store.Stop) {
	if stop >= store.StopSoft {
		j.Stop = stop
		j.stopSoft()
	}
	if stop >= store.StopHard {
		j.end(context.Canceled)
	}
}

func (j *job) stopSoft() { j.once.Do(func() { close(j.soft) }) }

// waitForLease is how long a job waits for the cluster's lease, which a vanished server may still seem to hold.
const waitForLease = 2 * ttl

// A job ends as failed when its servers have ended in the midst of it this often, before and after its plan was agreed to: it may be what ends them.
const (
	mostPlannings  = 3
	mostExecutions = 20
)

// attempt does the job unless too many servers have ended with it. A panic is an error of the job: a server that exits would take the job again.
func (j *job) attempt(hard context.Context) (done operate.Done, err error) {
	defer func() {
		if why := recover(); why != nil {
			j.b.c.Log.Error("a job panicked", "job", j.ID, "cluster", j.Cluster, "verb", j.Verb, "panic", why, "stack", string(debug.Stack()))
			err = fail.New(fail.Internal, "this is a defect of naupegos; the server's log has details").At(j.Cluster)
		}
	}()
	most := int64(mostPlannings)
	if j.Agreed != nil {
		most = mostExecutions
	}
	if j.Generation > most {
		return done, fail.New(fail.Refused, "%d servers have ended while they did this job; it is not taken again", j.Generation-1).At(j.Cluster).
			Do("look into the servers' logs and journals for the reason, such as memory, and run the command again")
	}
	return j.do(hard)
}

// do makes and executes the plan.
func (j *job) do(hard context.Context) (done operate.Done, err error) {
	if err := json.Unmarshal(j.Request, &j.order); err != nil {
		return done, fail.Wrap(fail.Internal, err, "read the job")
	}
	if over, err := j.resume(hard); over || err != nil {
		return operate.Done{Changed: over}, err
	}
	if j.Agreed == nil { // once the job has begun, a new commit waits for its end
		if err := j.b.reviewed(hard, j.Cluster, j.order.Order); err != nil {
			return done, err
		}
	}
	ctx, cancel := context.WithCancel(hard) // the session ends with it
	defer cancel()
	begun, err := j.begin(ctx, cancel)
	if fail.KindOf(err) == fail.NotFound && j.Agreed != nil && (j.Verb == operate.Destroy || j.Verb == operate.Release) {
		return operate.Done{Changed: true}, nil // a previous server has already removed the cluster
	}
	if err != nil {
		return done, err
	}
	defer func() { err = begun.CloseWith(err) }()
	t := operate.Terms{
		Front: j, Yes: j.order.Yes, Consents: j.order.Consents, Parallel: j.order.Parallel, Step: begun.Document.Spec.Timeouts.Step.Duration,
		Interrupts: func(ctx context.Context) (<-chan struct{}, context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return j.soft, ctx, cancel
		},
		Meta: map[string]string{"version": j.b.c.Version, "job": j.ID, plan.MetaBy: j.Who},
	}
	if j.Agreed != nil {
		if t.Agreed, err = show.Parse(j.Agreed); err != nil {
			return done, err
		}
	} else if err := j.agree(ctx, begun); err != nil {
		return done, err
	}
	t.Reviewed = true
	return begun.CarryOut(ctx, t)
}

// resume finds out how far a previous server got: the agreed plan may have begun, or be done.
func (j *job) resume(ctx context.Context) (over bool, err error) {
	if j.Agreed == nil {
		return false, nil
	}
	runs, err := j.b.c.Store.Runs(ctx, j.Cluster, recentRuns)
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		if r.Meta["job"] != j.ID {
			continue
		}
		j.order.Resumed = true
		if r.Outcome == plan.OutcomeSucceeded && !j.order.GoesFurther() {
			return true, nil
		}
	}
	return false, nil
}

// recentRuns is the number of a cluster's last runs that resume searches; until the job ends, no other work adds many runs.
const recentRuns = 50

// begin opens the session and makes the plan. A soft stop cancels this, too, because no step has begun yet. begin waits for the lease of a vanished
// server.
func (j *job) begin(ctx context.Context, cancel func()) (begun *operate.Begun, err error) {
	over := make(chan struct{})
	var heeding sync.WaitGroup
	heeding.Go(func() {
		select {
		case <-j.soft:
			cancel()
		case <-over:
		}
	})
	defer func() {
		close(over)
		heeding.Wait()
		if ctx.Err() == nil {
			return
		}
		if err == nil {
			err = errors.Join(ctx.Err(), begun.Close())
		}
		begun, err = nil, fail.Wrap(fail.Interrupted, err, "stopped before a step was done").At(j.Cluster)
	}()
	deadline := time.Now().Add(waitForLease)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		o := j.b.c.Options(j.order.Asked, Need{CarryOut: true, Build: j.order.Build, Say: j.lines})
		o.By = j.Who
		st, err := j.b.c.Open(ctx)
		if err != nil {
			return nil, err
		}
		begun, err := operate.Begin(ctx, st, j.order.Asked, o)
		if fail.KindOf(err) != fail.Conflict || j.Generation < 2 || time.Now().After(deadline) {
			return begun, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// agree refuses a plan that differs from the agreed one, and otherwise stores it. An unattended task is agreed to in the document.
func (j *job) agree(ctx context.Context, begun *operate.Begun) error {
	is, err := begun.Digest()
	if err != nil {
		return err
	}
	if is != j.order.Digest && !j.order.Unasked {
		return fail.New(fail.Conflict, "the cluster has changed since the plan was made; nothing was done").At(j.Cluster).Do("run the same command again: it plans again")
	}
	raw, err := json.Marshal(show.JSON(begun.First.Plan))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write the plan down")
	}
	return j.b.c.Store.AgreeJob(ctx, j.Job, raw)
}

// Need is the purpose of a session.
type Need struct {
	Look     bool      // only look whether there is anything to do
	CarryOut bool      // execute the plan, under the lease
	Prepare  bool      // before planning, make everything that the execution needs
	Build    bool      // both may build what the server's library lacks
	Say      io.Writer // receives lines about that
}

// Show implements operate.Front.
func (j *job) Show(p *plan.Plan, later string) error {
	if err := show.WriteEvent(j.lines.json(), p, time.Now()); err != nil {
		return err
	}
	if later != "" {
		_, err := j.lines.Write([]byte(later + "\n"))
		return err
	}
	return nil
}

// Agree implements operate.Front: it can't ask, so it refuses everything that was not agreed to beforehand.
func (j *job) Agree(string) error {
	if j.order.Yes {
		return nil
	}
	j.more = true
	return fail.New(fail.Interrupted, "more changes are needed, which no operator has approved").At(j.Cluster)
}

// Observer implements operate.Front.
func (j *job) Observer() plan.Observer {
	return observer{show.NewObserver(j.lines.json(), show.ObserveJSON), j}
}

// observer writes the steps of a run before it begins, because Show omits a plan that was shown before.
type observer struct {
	plan.Observer
	j *job
}

// Begin implements plan.Observer.
func (o observer) Begin(p *plan.Plan, at time.Time) {
	if err := show.WriteSteps(o.j.lines.json(), p, at); err != nil {
		o.j.b.c.Log.Error("the steps of a run could not be reported", "job", o.j.ID, "error", err.Error())
	}
	o.Observer.Begin(p, at)
}
