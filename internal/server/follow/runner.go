package follow

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
)

// Duty is the kind of the duty to look at a repository.
const Duty = "follow"

// Times and limits of looks.
const (
	ttl      = 2 * time.Minute  // a server that does not renew its duty for so long loses it
	lookTime = 20 * time.Minute // of one look, which may have to wait for a bundle
	again    = 10 * time.Minute // between two reads of a refused commit; also the longest pause after failures
	most     = 2                // looks at once
	recent   = 20               // jobs of a cluster that are looked through
)

// Config configures a runner.
type Config struct {
	Store store.Store
	// Open opens a separate store for each plan, which closes it.
	Open    func(context.Context) (store.Store, error)
	Options func(a operate.Asked, n work.Need) operate.Options
	Board   *work.Board
	Policy  *policy.Policy // decides which addresses repositories may have
	Log     *slog.Logger
	Tick    time.Duration                                       // interval between searches for due looks; 0: 2 s
	Resolve func(context.Context, string) ([]netip.Addr, error) // nil: by this host's DNS
	Ended   func(store.Duty)                                    // called after each look; may be nil
}

// Runner looks at the repositories of follows.
type Runner struct {
	c       Config
	follows Follows
	mu      sync.Mutex
	doing   map[string]bool // by cluster
}

// NewRunner returns a runner, which looks at repositories while Run runs.
func NewRunner(c Config) *Runner {
	if c.Tick <= 0 {
		c.Tick = 2 * time.Second
	}
	if c.Resolve == nil {
		c.Resolve = gitread.Resolve
	}
	return &Runner{c: c, follows: NewFollows(c.Store.ServerSecrets()), doing: map[string]bool{}}
}

// Run looks at repositories until ctx ends. Each is looked at by one of the servers on a store.
func (r *Runner) Run(ctx context.Context) error {
	tick := time.NewTicker(r.c.Tick)
	defer tick.Stop()
	var looking sync.WaitGroup
	defer looking.Wait()
	for {
		if err := r.round(ctx, &looking); err != nil && ctx.Err() == nil {
			r.c.Log.Error("repositories that are due for a look were not found", "error", err.Error())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// round begins the looks that are due, at most `most` at once.
func (r *Runner) round(ctx context.Context, looking *sync.WaitGroup) error {
	all, err := r.follows.List(ctx, func(string) bool { return true })
	if err != nil {
		return err
	}
	duties, err := r.c.Store.Duties(ctx, "")
	if err != nil {
		return err
	}
	last := map[string]store.Duty{}
	for _, d := range duties {
		if d.Kind == Duty {
			last[d.Cluster] = d
		}
	}
	for i := range all {
		f := all[i].Follow
		d, there := last[f.Cluster]
		delete(last, f.Cluster)
		if there && time.Now().Before(d.Due.Add(-time.Minute)) || !r.enter(f.Cluster) { // this host's clock may be wrong; the store decides by its own
			continue
		}
		taken, err := r.c.Store.TakeDuty(ctx, f.Cluster, Duty, ttl)
		if err != nil || taken == nil {
			r.leave(f.Cluster)
			if err != nil {
				return err
			}
			continue
		}
		looking.Go(func() {
			defer r.leave(f.Cluster)
			r.discharge(ctx, taken, &f)
		})
	}
	for cluster := range last { // follows that were removed
		if err := r.c.Store.DropDuty(ctx, cluster, Duty); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) enter(cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doing[cluster] || len(r.doing) >= most {
		return false
	}
	r.doing[cluster] = true
	return true
}

func (r *Runner) leave(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.doing, cluster)
}

// discharge looks at one repository, keeps the duty meanwhile, and records the outcome.
func (r *Runner) discharge(ctx context.Context, d *store.Duty, f *Follow) {
	log := r.c.Log.With("cluster", f.Cluster, "repository", f.URL)
	bounded, end := context.WithTimeoutCause(ctx, lookTime, fail.New(fail.NotReady, "looking and planning took longer than %s", lookTime))
	bounded, lost := context.WithCancelCause(bounded)
	var kept sync.WaitGroup
	kept.Go(func() { r.keep(bounded, *d, lost) })
	said, err := r.guarded(bounded, d, f)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = context.Cause(bounded)
	}
	lost(nil)
	end()
	kept.Wait()
	pause := f.interval()
	switch d.Outcome, d.Message = store.DutyNothing, said; {
	case err != nil && ctx.Err() != nil: // this server stops, and another one shall look
		d.Outcome, d.Message, pause = store.DutyPutOff, "its server was stopped", 0
	case fail.KindOf(err) == fail.Conflict: // other work on the cluster is under way
		d.Outcome, d.Message = store.DutyPutOff, fail.Public(err).Error()
	case err != nil:
		d.Failures++
		d.Outcome, d.Message = store.DutyFailed, fail.Public(err).Error()
		pause = max(pause, min(pause<<min(d.Failures-1, 6), again))
		log.Warn("a repository could not be followed", "failures", d.Failures, "again", pause.String(), "error", fail.Whole(err).Error())
	default:
		if d.Failures = 0; said != "" {
			d.Outcome = store.DutyDone
		}
	}
	recording, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := r.c.Store.EndDuty(recording, d, pause); err != nil {
		log.Info("the outcome of a look at a repository is not recorded", "why", err.Error())
		return
	}
	if r.c.Ended != nil && ctx.Err() == nil {
		r.c.Ended(*d)
	}
}

// keep renews a duty until ctx ends, and ends the look if another server has the duty.
func (r *Runner) keep(ctx context.Context, d store.Duty, lost context.CancelCauseFunc) {
	d.Outcome = "" // it has no new one yet
	tick := time.NewTicker(ttl / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := r.c.Store.KeepDuty(ctx, &d, ttl); fail.KindOf(err) == fail.Conflict && ctx.Err() == nil {
			lost(err)
			return
		}
	}
}

// guarded looks at a repository. A panic counts as a failure, with its pause.
func (r *Runner) guarded(ctx context.Context, d *store.Duty, f *Follow) (said string, err error) {
	defer func() {
		if why := recover(); why != nil {
			r.c.Log.Error("a look at a repository panicked", "cluster", f.Cluster, "panic", why, "stack", string(debug.Stack()))
			err = fail.New(fail.Internal, "this is a defect of naupegos; the server's log has details")
		}
	}()
	return r.look(ctx, d, f)
}

// dir is where repositories are read.
func (r *Runner) dir() string { return filepath.Join(r.c.Store.Dir(), "follow") }
