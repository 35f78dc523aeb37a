package operate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/fail"
)

// Scaler resizes the autoscaled pools of one cluster on request. Each change is a separate plan under the cluster's lease. A change is stored before
// execution, so that an interrupted one is completed later.
type Scaler struct {
	Name string // of the cluster
	// Look returns the current state of the autoscaled pools.
	Look func(context.Context) ([]scaling.Pool, error)
	// Carry resizes a pool: it plans, calls agreed with the pools once the new size is stored, and carries the plan out.
	Carry func(ctx context.Context, pool string, to Resizing, agreed func([]scaling.Pool)) error
	Tell  func(format string, args ...any) // reports progress
	Stop  <-chan struct{}                  // once closed, no change begins

	mu      sync.Mutex
	pools   []scaling.Pool
	busy    bool
	idle    sync.WaitGroup
	making  map[string]bool   // machines that the last change makes
	problem map[string]string // why machines could not be made, by their names
	again   time.Time         // when an unfinished change may be retried
	pause   time.Duration     // before the next attempt; doubles with each failure
}

// Resizing returns the new size for a pool of the given size, and the machines to remove.
type Resizing func(size int) (to int, gone []string, err error)

// The shortest and the longest pause before a failed change is retried.
const (
	firstPause = time.Minute
	maxPause   = 10 * time.Minute
)

// Refresh looks at the cluster and resumes an unfinished change, unless a change is running or the pause after a failure is not over.
func (s *Scaler) Refresh(ctx context.Context) error {
	pools, err := s.Look(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.pools = pools
	undone := ""
	if !s.busy && !time.Now().Before(s.again) {
		undone = unfinished(pools)
	}
	s.mu.Unlock()
	if undone == "" {
		return nil
	}
	if err := s.change(ctx, undone, func(size int) (int, []string, error) { return size, nil, nil }); err != nil {
		s.Tell("what was decided before of pool %s is not done yet: %v", undone, err)
	}
	return nil // the autoscaler continues with the other pools
}

// unfinished returns the name of a pool whose last change is not done; empty if all are done.
func unfinished(pools []scaling.Pool) string {
	for _, p := range pools {
		if p.Changes || slices.ContainsFunc(p.Machines, func(m scaling.Machine) bool { return m.Leaves || !m.Exists }) {
			return p.Name
		}
	}
	return ""
}

// List returns the pools as last seen. Machines that a running change makes don't run yet; machines that could not be made have a Problem.
func (s *Scaler) List(ctx context.Context) ([]scaling.Pool, error) {
	s.mu.Lock()
	known := s.pools != nil
	s.mu.Unlock()
	if !known {
		if err := s.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.pools)
	for i := range out {
		out[i].Machines = slices.Clone(out[i].Machines)
		for j := range out[i].Machines {
			m := &out[i].Machines[j]
			if s.busy && s.making[m.Name] {
				m.Runs = false
			}
			if m.Problem = s.problem[m.Name]; m.Runs {
				m.Problem = ""
			}
		}
	}
	return out, nil
}

// Grow adds machines to a pool.
func (s *Scaler) Grow(ctx context.Context, pool string, by int) error {
	return s.change(ctx, pool, func(size int) (int, []string, error) { return size + by, nil, nil })
}

// Remove removes machines from a pool and lowers its size accordingly. It ignores unknown machines and those already being removed.
func (s *Scaler) Remove(ctx context.Context, pool string, machines []string) error {
	p, err := s.pool(ctx, pool)
	if err != nil {
		return err
	}
	var gone []string
	fewer := 0
	for _, m := range p.Machines {
		switch {
		case !slices.Contains(machines, m.Name) || m.Leaves:
			continue
		case m.Exists:
			gone = append(gone, m.Name)
		}
		fewer++
	}
	if fewer == 0 {
		return nil
	}
	return s.change(ctx, pool, func(size int) (int, []string, error) { return size - fewer, gone, nil })
}

// Forgo lowers the size of a pool by machines that do not exist yet. It returns fail.Invalid if an existing machine would have to go.
func (s *Scaler) Forgo(ctx context.Context, pool string, by int) error {
	p, err := s.pool(ctx, pool)
	if err != nil {
		return err
	}
	there := 0
	for _, m := range p.Machines {
		if m.Exists && !m.Leaves {
			there++
		}
	}
	return s.change(ctx, pool, func(size int) (int, []string, error) {
		if size-by < there {
			return 0, nil, fail.New(fail.Invalid, "pool %s of cluster %s has %d machines: that many can't be forgone of %d", pool, s.Name, there, size)
		}
		return size - by, nil, nil
	})
}

// pool looks at the cluster and returns one pool.
func (s *Scaler) pool(ctx context.Context, name string) (scaling.Pool, error) {
	pools, err := s.Look(ctx)
	if err != nil {
		return scaling.Pool{}, err
	}
	i := slices.IndexFunc(pools, func(p scaling.Pool) bool { return p.Name == name })
	if i < 0 {
		return scaling.Pool{}, fail.New(fail.NotFound, "cluster %s has no pool %s that scales", s.Name, name)
	}
	return pools[i], nil
}

// change plans another size of a pool under the lease, and returns once the size is stored; the plan is then carried out in the background.
func (s *Scaler) change(ctx context.Context, pool string, to Resizing) error {
	if err := s.begin(); err != nil {
		return err
	}
	agreed, done := make(chan struct{}), make(chan error, 1)
	go func() {
		err := s.Carry(context.WithoutCancel(ctx), pool, func(size int) (int, []string, error) {
			if ctx.Err() != nil {
				return 0, nil, fail.New(fail.Interrupted, "the request for another size of pool %s was abandoned by its client", pool)
			}
			return to(size)
		}, func(pools []scaling.Pool) {
			s.remembered(pools)
			close(agreed)
		})
		s.end(pool, agreed, err)
		done <- err
	}()
	select {
	case <-agreed:
		return nil
	case err := <-done:
		select {
		case <-agreed: // both have happened
			return nil
		default:
			return err
		}
	}
}

// begin claims s for one change, until end. It returns fail.Conflict while another change runs in this process, and fail.Interrupted after Stop.
func (s *Scaler) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return fail.New(fail.Conflict, "another change of the pools of cluster %s is being carried out", s.Name)
	}
	select {
	case <-s.Stop:
		return fail.New(fail.Interrupted, "the server of cluster %s's pools is being stopped", s.Name)
	default:
	}
	s.busy = true
	s.idle.Add(1)
	return nil
}

// remembered notes the pools as of a stored change, and the machines that the change makes.
func (s *Scaler) remembered(pools []scaling.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools, s.making, s.problem = pools, map[string]bool{}, nil
	for _, p := range pools {
		for _, m := range p.Machines {
			if !m.Exists {
				s.making[m.Name] = true
			}
		}
	}
}

// end notes the outcome of a change. After a failure, Refresh retries the change when a pause is over, unless another request supersedes it.
func (s *Scaler) end(pool string, agreed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.idle.Done()
	s.busy = false
	switch {
	case err == nil:
		s.pause, s.again, s.problem = 0, time.Time{}, nil
		return
	case fail.KindOf(err) == fail.Conflict: // another holder of the lease is at work
		return
	}
	s.pause = min(max(2*s.pause, firstPause), maxPause)
	s.again = time.Now().Add(s.pause)
	select {
	case <-agreed:
		s.problem = map[string]string{}
		for name := range s.making {
			s.problem[name] = err.Error()
		}
		s.Tell("pool %s of cluster %s: %v", pool, s.Name, err)
	default: // change returns the error to the caller
	}
}

// Wait waits until no change is running.
func (s *Scaler) Wait() { s.idle.Wait() }
