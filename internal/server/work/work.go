// Package work runs the jobs that operators give the server: it claims them from the store, each for one server, and lets package operate execute
// the agreed plan.
//
// A job outlives its server: another one on the same store continues it, by planning again and executing what was agreed to. The package does not
// depend on HTTP.
package work

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/store"
)

// Times of the board. A job without a beat of its server for a ttl passes to another server.
const (
	ttl   = 30 * time.Second
	beat  = 2 * time.Second
	look  = time.Second
	flush = 150 * time.Millisecond
	most  = 4 // jobs at once
)

// Order is a job in the store.
type Order struct {
	operate.Asked
	Digest   string   `json:"digest" doc:"Digest of the approved plan"`
	Consents []string `json:"consents,omitempty" doc:"The consents given"`
	Yes      bool     `json:"yes,omitempty" doc:"Also approve changes that turn out to be needed, unless they remove something"`
	Parallel int      `json:"parallel,omitempty" minimum:"0" maximum:"256" doc:"Maximum number of concurrent steps; 0: 16"`
	Review   string   `json:"review,omitempty" maxLength:"64" doc:"The ID of the followed repository's review that this approves, from GET /api/v1/follows: refused once another commit has replaced it"`
	MayBuild bool     `json:"-"` // the operator may have the server build what its library lacks
}

// queued is an order in the store.
type queued struct {
	Order
	Unasked bool `json:"unasked,omitempty"` // an unattended task, with no agreed plan
	Build   bool `json:"build,omitempty"`   // Order.MayBuild, which no request contains
}

// Result is the result of a job.
type Result struct {
	operate.Done
	More  bool   `json:"more,omitempty"`  // the job ended because more was found to do than was agreed to
	Kind  string `json:"kind,omitempty"`  // kind of the error; empty: none
	Error string `json:"error,omitempty"` // for people
}

// Err returns the error of a job, or nil.
func (r Result) Err() error {
	if r.Kind == "" {
		return nil
	}
	return fail.New(fail.Named(r.Kind), "%s", r.Error)
}

// Config configures a board.
type Config struct {
	Store store.Store
	// Open opens a separate store for each job; the session closes it.
	Open func(context.Context) (store.Store, error)
	// Options returns the options of a session, such as its bundle and agent.
	Options func(a operate.Asked, n Need) operate.Options
	Log     *slog.Logger
	Version string
	Of      []string      // the board takes only jobs of these users; empty: of all
	Drain   time.Duration // time for running steps to end after a stop
	Tick    time.Duration // interval between looks for due unattended tasks; 0: 5 s
	// Here is the host part of the addresses for autoscalers (empty: all addresses); Reached returns the server's names and addresses for them.
	Here    string
	Reached func() ([]string, error)
	// Reviewed refuses a job that approves a review which does not wait any more. nil: no review ever waits.
	Reviewed func(ctx context.Context, cluster string, o Order) error
	// Ended and Attended, if set, are called after jobs and unattended tasks.
	Ended    func(verb string, err error)
	Attended func(d store.Duty)
}

// Board claims jobs and runs them.
type Board struct {
	c       Config
	ttl     time.Duration // of the duty to answer an autoscaler
	mu      sync.Mutex
	wake    chan struct{}
	running map[string]chan struct{} // by job: makes it check for a request to stop
	changed chan struct{}            // closed and replaced when a job of this server has new output

	doing     map[duty]bool  // the duties that run on this server
	attending sync.WaitGroup // of them
	answering map[string]int // by cluster: the port at which this server answers its autoscaler
}

// New returns a board, which works while Run runs.
func New(c Config) *Board {
	if c.Drain <= 0 {
		c.Drain = 30 * time.Second
	}
	if c.Tick <= 0 {
		c.Tick = 5 * time.Second
	}
	return &Board{c: c, ttl: ttl, wake: make(chan struct{}, 1), running: map[string]chan struct{}{}, doing: map[duty]bool{}, answering: map[string]int{}, changed: make(chan struct{})}
}

// Add queues a job.
func (b *Board) Add(ctx context.Context, who, cluster string, o Order) (*store.Job, error) {
	return b.add(ctx, who, cluster, queued{Order: o, Build: o.MayBuild})
}

func (b *Board) add(ctx context.Context, who, cluster string, o queued) (*store.Job, error) {
	if err := b.reviewed(ctx, cluster, o.Order); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the job down")
	}
	j, err := b.c.Store.AddJob(ctx, store.Job{Cluster: cluster, Verb: o.Verb, Title: o.About().Title, Request: raw, Who: who})
	if err == nil {
		b.poke(b.wake)
	}
	return j, err
}

// reviewed refuses a job for a review that does not wait any more.
func (b *Board) reviewed(ctx context.Context, cluster string, o Order) error {
	switch {
	case o.Review == "":
		return nil
	case b.c.Reviewed == nil:
		return fail.New(fail.NotFound, "no review %.64q waits", o.Review).At(cluster)
	}
	return b.c.Reviewed(ctx, cluster, o)
}

// Stop requests a job to stop. A job on another server notices within seconds.
func (b *Board) Stop(ctx context.Context, id string, s store.Stop) error {
	if err := b.c.Store.StopJob(ctx, id, s); err != nil {
		return err
	}
	b.mu.Lock()
	mine := b.running[id]
	b.mu.Unlock()
	if mine != nil {
		b.poke(mine)
	}
	return nil
}

// Changed returns a channel that is closed when a job of this server has new output. Poll for the output of other servers' jobs.
func (b *Board) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b *Board) tellChanged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Board) poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it was requested already
	}
}

// Run takes jobs until ctx ends. Then running steps end, and the remaining work is left for another server, or for this server's next start.
func (b *Board) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, most)
	tick := time.NewTicker(look)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		j, err := b.c.Store.ClaimJob(ctx, ttl, b.c.Of...)
		if err != nil && ctx.Err() == nil {
			b.c.Log.Error("no job could be looked for", "error", err.Error())
		}
		if err == nil && j != nil {
			wg.Go(func() {
				defer func() { <-slots }()
				b.carryOut(ctx, j)
			})
			continue
		}
		<-slots
		select {
		case <-tick.C:
		case <-b.wake:
		case <-ctx.Done():
		}
	}
	return nil
}
