// Package work carries out the jobs that operators give the server: it takes them from the store, one server at a time, and has operate do what
// was agreed to.
//
// A job outlives its server: another one on the same store goes on with it, by planning again and doing what was agreed to. The package knows
// nothing of HTTP.
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

// Times of the board. A job whose server does not beat for a ttl is another's.
const (
	ttl   = 30 * time.Second
	beat  = 2 * time.Second
	look  = time.Second
	flush = 150 * time.Millisecond
	most  = 4 // jobs at once
)

// Order is a job as it lies in the store.
type Order struct {
	operate.Asked
	Digest   string   `json:"digest" doc:"Of the plan that is agreed to"`
	Consents []string `json:"consents,omitempty" doc:"What is consented to"`
	Yes      bool     `json:"yes,omitempty" doc:"What turns out to be needed besides is agreed to, unless it takes something away"`
	Parallel int      `json:"parallel,omitempty" minimum:"0" maximum:"256" doc:"Most steps at once; 0: 16"`
}

// queued is an order as it lies in the store.
type queued struct {
	Order
	Unasked bool `json:"unasked,omitempty"` // a server has it done by itself: nobody has agreed to a plan
}

// Result is what came of a job.
type Result struct {
	operate.Done
	More  bool   `json:"more,omitempty"`  // it ended because more was found to do than was agreed to
	Kind  string `json:"kind,omitempty"`  // of the error; empty: none
	Error string `json:"error,omitempty"` // for people
}

// Err returns the error that a job ended with; nil: none.
func (r Result) Err() error {
	if r.Kind == "" {
		return nil
	}
	return fail.New(fail.Named(r.Kind), "%s", r.Error)
}

// Config is what a board works with.
type Config struct {
	Store store.Store
	// Open opens a store of its own for each job: a session closes it.
	Open func(context.Context) (store.Store, error)
	// Options says with what a session works: its bundle, its agent. say takes lines about what is made meanwhile.
	Options func(a operate.Asked, n Need) operate.Options
	Log     *slog.Logger
	Version string
	Of      []string      // the board takes jobs of these requesters alone; none: of all
	Drain   time.Duration // how long running steps have to end after a stop
	Tick    time.Duration // how often it is looked for what is to be done unasked; 0: 5 s
	// Here is the host that autoscalers are answered at (empty: all addresses), and Reached says by which names and addresses they reach it.
	Here    string
	Reached func() ([]string, error)
	// Ended and Attended are told, where they are set, of jobs that have ended and of what was done unasked.
	Ended    func(verb string, err error)
	Attended func(d store.Duty)
}

// Board takes jobs and carries them out.
type Board struct {
	c       Config
	mu      sync.Mutex
	wake    chan struct{}
	running map[string]chan struct{} // by job: asks it to look whether it is to stop
	changed chan struct{}            // closed, and made anew, when a job of this server has told something

	doing     map[duty]bool  // the duties that are under way here
	attending sync.WaitGroup // of them
	answering map[string]int // by cluster: the port at which its autoscaler is answered here
}

// New returns a board. Run has it work.
func New(c Config) *Board {
	if c.Drain <= 0 {
		c.Drain = 30 * time.Second
	}
	if c.Tick <= 0 {
		c.Tick = 5 * time.Second
	}
	return &Board{c: c, wake: make(chan struct{}, 1), running: map[string]chan struct{}{}, doing: map[duty]bool{}, answering: map[string]int{}, changed: make(chan struct{})}
}

// Add queues a job.
func (b *Board) Add(ctx context.Context, who, cluster string, o Order) (*store.Job, error) {
	return b.add(ctx, who, cluster, queued{Order: o})
}

func (b *Board) add(ctx context.Context, who, cluster string, o queued) (*store.Job, error) {
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

// Stop asks a job to stop. One that another server has learns of it within seconds.
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

// Changed is closed once a job of this server has told something. Jobs of other servers are to be looked at in time.
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
	default: // it was asked already
	}
}

// Run takes jobs until ctx ends. Then it takes no more, running steps end, and what is left is for another server, or for this one's next
// start.
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
