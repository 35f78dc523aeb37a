package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// LeaseOptions says how a lease is held.
type LeaseOptions struct {
	TTL time.Duration // how long it outlives its last heartbeat; 0 means 30 s. Heartbeats come three times as often
}

// Lease is the right to change one cluster, held by one process at a time.
type Lease struct {
	s          *Store
	cluster    string
	generation int64
	ttl        time.Duration
	lost       chan struct{}
	lose       sync.Once
	expiry     *time.Timer // fires when no heartbeat came through for a TTL
	cancel     context.CancelFunc
	done       chan struct{}
}

// AcquireLease takes the lease of a cluster and keeps it by heartbeat until Release. If another holds it, the error is
// fail.Conflict and shows holder, since when, last heartbeat and expiry. The lease of a process that died on this host is
// taken over at once, any other once it has expired. ctx bounds the acquiring only.
func (s *Store) AcquireLease(ctx context.Context, clusterID, verb string, o LeaseOptions) (*Lease, error) {
	if o.TTL <= 0 {
		o.TTL = 30 * time.Second
	}
	now := time.Now()
	l := &Lease{s: s, cluster: clusterID, ttl: o.TTL, lost: make(chan struct{}), done: make(chan struct{})}
	err := inTx(ctx, s.log, func(tx *sql.Tx) error {
		old, err := scanLease(tx.QueryRowContext(ctx, selectLease+" WHERE l.cluster_id = ?", clusterID))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err == nil && old.held && now.Before(old.info.Expires) && old.holder.lives(s.self) != dead {
			return held(old, s.self)
		}
		if err == nil {
			l.generation = old.info.Generation
		}
		l.generation++
		_, err = tx.ExecContext(ctx, `INSERT INTO leases (cluster_id, generation, held, verb, holder, acquired, heartbeat, expires)
			VALUES (?, ?, 1, ?, ?, ?, ?, ?) ON CONFLICT (cluster_id) DO UPDATE SET generation = excluded.generation, held = 1,
			verb = excluded.verb, holder = excluded.holder, acquired = excluded.acquired, heartbeat = excluded.heartbeat,
			expires = excluded.expires`,
			clusterID, l.generation, verb, s.self.encode(), micros(now), micros(now), micros(now.Add(o.TTL)))
		return err
	})
	if isForeignKey(err) {
		return nil, s.unknownCluster(ctx, clusterID)
	}
	if err != nil {
		return nil, s.wrap(err, "take the lease of %s", clusterID)
	}
	s.setFence(clusterID, l.generation)
	var beat context.Context
	beat, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.expiry = time.AfterFunc(time.Until(now.Add(o.TTL)), l.markLost)
	go l.keep(beat)
	return l, nil
}

func held(old *leaseRow, self holder) error {
	i := old.info
	ago := func(t time.Time) string { return time.Since(t).Round(time.Second).String() }
	e := fail.New(fail.Conflict, "%s is running: held by %s since %s (%s ago), last heartbeat %s ago, expires in %s", i.Verb, i.Holder,
		i.Acquired.Local().Format("2006-01-02 15:04:05"), ago(i.Acquired), ago(i.Heartbeat), time.Until(i.Expires).Round(time.Second)).At(i.Cluster)
	if old.holder.lives(self) == alive {
		return e.Do("wait until it is done, or stop it there with Ctrl-C or here with: kill -INT %d", old.holder.PID)
	}
	return e.Do("wait until it is done; if that process is dead, its lease ends by itself when it expires")
}

// keep sends heartbeats until Release, or until the lease is lost.
func (l *Lease) keep(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.lost:
			return
		case <-tick.C:
		}
		if l.beat(ctx) {
			return
		}
	}
}

// beat sends one heartbeat and reports whether the lease is over. One that fails is tried again at the next tick; if none
// comes through in time, the expiry timer ends the lease.
func (l *Lease) beat(ctx context.Context) (over bool) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	now := time.Now()
	res, err := l.s.log.ExecContext(ctx, "UPDATE leases SET heartbeat = ?, expires = ? WHERE cluster_id = ? AND generation = ? AND held = 1",
		micros(now), micros(now.Add(l.ttl)), l.cluster, l.generation)
	if err != nil {
		return false
	}
	n, err := res.RowsAffected()
	switch {
	case err != nil:
		return false
	case n == 1:
		l.expiry.Reset(time.Until(now.Add(l.ttl)))
		return false
	}
	var there int // nothing to hold any more if the cluster is forgotten: that is no loss
	err = l.s.log.QueryRowContext(ctx, "SELECT COUNT(*) FROM clusters WHERE id = ?", l.cluster).Scan(&there)
	if err != nil {
		return false
	}
	l.expiry.Stop()
	if there > 0 {
		l.markLost()
	}
	return true
}

func (l *Lease) markLost() { l.lose.Do(func() { close(l.lost) }) }

// Lost is closed when another took the lease over, or no heartbeat came through for a TTL. Whoever holds it must then stop.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Generation grows with each acquisition; of two holders the one with the greater number is right.
func (l *Lease) Generation() int64 { return l.generation }

// Check asks the store whether the lease is still held: fail.Conflict if not. For just before something irrevocable.
func (l *Lease) Check(ctx context.Context) error {
	select {
	case <-l.lost:
		return l.gone()
	default:
	}
	var n int
	err := l.s.log.QueryRowContext(ctx, "SELECT COUNT(*) FROM leases WHERE cluster_id = ? AND generation = ? AND held = 1 AND expires > ?",
		l.cluster, l.generation, micros(time.Now())).Scan(&n)
	if err == nil && n == 0 {
		return l.gone()
	}
	return l.s.wrap(err, "check the lease of %s", l.cluster)
}

func (l *Lease) gone() error { return overtaken(l.cluster) }

func overtaken(cluster string) error {
	return fail.New(fail.Conflict, "the lease was lost: another process took over, or this one was held up too long").At(cluster).
		Do("see who holds it, then run the same command again")
}

// setFence has what this Store writes about a cluster refused once somebody else holds a later lease; 0 ends that.
func (s *Store) setFence(cluster string, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation == 0 {
		delete(s.fences, cluster)
		return
	}
	s.fences[cluster] = generation
}

// fenced writes about a cluster: fail.Conflict, and nothing is written, where its lease was held here and another took it over. A process
// that was held up, by a suspended machine or a slow disk, learns of that only when it wakes; what it writes then would undo what the
// other one has done.
func (s *Store) fenced(ctx context.Context, cluster string, write func(tx *sql.Tx) error) error {
	s.mu.Lock()
	generation, held := s.fences[cluster]
	s.mu.Unlock()
	return inTx(ctx, s.db, func(tx *sql.Tx) error {
		if held {
			var later int
			if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM leases WHERE cluster_id = ? AND generation > ?", cluster, generation).Scan(&later); err != nil {
				return err
			}
			if later > 0 {
				return overtaken(cluster)
			}
		}
		return write(tx)
	})
}

// Release gives the lease back, also when ctx is cancelled. One that was lost, or whose cluster is forgotten, is not an error.
func (l *Lease) Release(ctx context.Context) error {
	l.cancel()
	<-l.done
	l.expiry.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	res, err := l.s.log.ExecContext(ctx, "UPDATE leases SET held = 0 WHERE cluster_id = ? AND generation = ?", l.cluster, l.generation)
	if err == nil {
		if n, rowsErr := res.RowsAffected(); rowsErr == nil && n == 1 { // else somebody has it, and what still runs here must not write
			l.s.setFence(l.cluster, 0)
		}
	}
	return l.s.wrap(err, "release the lease of %s", l.cluster)
}
