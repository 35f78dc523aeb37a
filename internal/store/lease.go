package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/process"
)

// lease implements Lease.
type lease struct {
	s          *database
	cluster    string
	generation int64
	ttl        time.Duration
	lost       chan struct{}
	lose       sync.Once
	expiry     *time.Timer // fires when no heartbeat has succeeded for a TTL
	cancel     context.CancelFunc
	done       chan struct{}
}

// AcquireLease implements Store.
func (s *database) AcquireLease(ctx context.Context, clusterID, verb string, o LeaseOptions) (Lease, error) {
	if o.TTL <= 0 {
		o.TTL = 30 * time.Second
	}
	l := &lease{s: s, cluster: clusterID, ttl: o.TTL, lost: make(chan struct{}), done: make(chan struct{})}
	var began time.Time
	err := s.change(ctx, s.log, once, func(tx *sql.Tx) error {
		began = time.Now()
		return l.take(ctx, tx, verb, o)
	})
	if err != nil {
		return nil, s.wrap(err, "take the lease of %s", clusterID)
	}
	s.setFence(clusterID, l.generation)
	var beat context.Context
	beat, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.expiry = time.AfterFunc(time.Until(began.Add(o.TTL)), l.markLost)
	go l.keep(beat)
	return l, nil
}

// take writes the lease, unless another process holds it.
func (l *lease) take(ctx context.Context, tx *sql.Tx, verb string, o LeaseOptions) error {
	s := l.s
	known, err := s.reserve(ctx, tx, l.cluster)
	if err != nil {
		return err
	}
	if !known {
		return s.unknown(ctx, tx, l.cluster)
	}
	if err := s.used(ctx, tx); err != nil {
		return err
	}
	now, err := s.now(ctx, tx)
	if err != nil {
		return err
	}
	old, err := one(ctx, s, tx, scanLease, selectLease+" WHERE l.cluster_id = $1", l.cluster)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		l.generation = 1
	case err != nil:
		return err
	case old.held && now.Before(old.info.Expires) && old.holder.Lives(s.self) != process.Dead:
		return held(old, s.self, now)
	default:
		l.generation = old.info.Generation + 1
	}
	if err := s.undisturbed(ctx, tx, l.cluster, now); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO leases (cluster_id, generation, held, verb, holder, acquired, heartbeat, expires, title, asker)
		VALUES ($1, $2, 1, $3, $4, $5, $5, $6, $7, $8) ON CONFLICT (cluster_id) DO UPDATE SET generation = excluded.generation, held = 1,
		verb = excluded.verb, holder = excluded.holder, acquired = excluded.acquired, heartbeat = excluded.heartbeat,
		expires = excluded.expires, title = excluded.title, asker = excluded.asker`,
		l.cluster, l.generation, verb, s.self.Encode(), micros(now), micros(now.Add(l.ttl)), o.Title, o.By)
	return err
}

// reserve locks a cluster until the transaction ends, so that no other transaction changes it or its secrets, or takes its lease. It reports whether
// the cluster is known.
func (s *database) reserve(ctx context.Context, tx *sql.Tx, cluster string) (known bool, err error) {
	_, err = one(ctx, s, tx, value[string], "SELECT id FROM clusters WHERE id = $1"+s.d.SQL().ForUpdate, cluster)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// now returns the database's time.
func (s *database) now(ctx context.Context, q querier) (time.Time, error) { return s.d.Now(ctx, q) }

func held(old *leaseRow, self process.ID, now time.Time) error {
	i := old.info
	ago := func(t time.Time) string { return now.Sub(t).Round(time.Second).String() }
	e := fail.New(fail.Conflict, "%s is running: held by %s since %s (%s ago), last heartbeat %s ago, expires in %s", i.Title, cmp.Or(old.asker, "a command on a host"),
		i.Acquired.Local().Format("2006-01-02 15:04:05"), ago(i.Acquired), ago(i.Heartbeat), i.Expires.Sub(now).Round(time.Second)).At(i.Cluster).Confide("  it is %s", i.Holder)
	if old.holder.Lives(self) == process.Alive {
		return e.Do("wait until it is done, or stop it there with Ctrl-C").Confide("  it is %s; kill -INT %d stops it here", i.Holder, old.holder.PID)
	}
	return e.Do("wait until it is done; if that process is dead, its lease ends by itself when it expires")
}

// keep sends heartbeats until Release, or until the lease is lost.
func (l *lease) keep(ctx context.Context) {
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

// beat sends one heartbeat and reports whether the lease is over. A failed heartbeat is repeated at the next tick; if none succeeds in time, the
// expiry timer ends the lease.
func (l *lease) beat(ctx context.Context) (over bool) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	began, mine, there := time.Now(), int64(0), 1
	_, err := l.s.inTx(ctx, l.s.log, func(tx *sql.Tx) error {
		now, err := l.s.now(ctx, tx)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, "UPDATE leases SET heartbeat = $1, expires = $2 WHERE cluster_id = $3 AND generation = $4 AND held = 1",
			micros(now), micros(now.Add(l.ttl)), l.cluster, l.generation)
		if err != nil {
			return err
		}
		if mine, err = res.RowsAffected(); err != nil || mine > 0 {
			return err
		}
		there, err = one(ctx, l.s, tx, value[int], "SELECT COUNT(*) FROM clusters WHERE id = $1", l.cluster)
		return err
	})
	switch {
	case err != nil:
		return false
	case mine > 0:
		l.expiry.Reset(time.Until(began.Add(l.ttl)))
		return false
	case there > 0: // otherwise the cluster was deleted: there is nothing left to hold, and the lease is not lost
		l.markLost()
	}
	l.expiry.Stop()
	return true
}

func (l *lease) markLost() { l.lose.Do(func() { close(l.lost) }) }

// Lost implements Lease.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Generation implements Lease.
func (l *lease) Generation() int64 { return l.generation }

// Check implements Lease.
func (l *lease) Check(ctx context.Context) error {
	select {
	case <-l.lost:
		return overtaken(l.cluster)
	default:
	}
	now, err := l.s.now(ctx, l.s.log)
	if err != nil {
		return l.s.wrap(err, "check the lease of %s", l.cluster)
	}
	n, err := one(ctx, l.s, l.s.log, value[int], "SELECT COUNT(*) FROM leases WHERE cluster_id = $1 AND generation = $2 AND held = 1 AND expires > $3",
		l.cluster, l.generation, micros(now))
	if err == nil && n == 0 {
		return overtaken(l.cluster)
	}
	return l.s.wrap(err, "check the lease of %s", l.cluster)
}

func overtaken(cluster string) error {
	return fail.New(fail.Conflict, "the lease was lost: another process took over, or this one was held up too long").At(cluster).
		Do("see who holds it, then run the same command again")
}

// setFence makes this Store refuse to write about a cluster once another process holds a later lease than generation; 0 removes the fence.
func (s *database) setFence(cluster string, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation == 0 {
		delete(s.fences, cluster)
		return
	}
	s.fences[cluster] = generation
}

// fenced runs write, which may run twice, unless the cluster's lease was held here and another process took it over: then it writes nothing and
// returns fail.Conflict. A process that was suspended, or delayed by a slow disk, learns of the takeover only when it wakes, and its writes would
// undo the other's work.
func (s *database) fenced(ctx context.Context, cluster string, write func(tx *sql.Tx) error) error {
	s.mu.Lock()
	generation, held := s.fences[cluster]
	s.mu.Unlock()
	return s.change(ctx, s.db, twice, func(tx *sql.Tx) error {
		if _, err := s.reserve(ctx, tx, cluster); err != nil {
			return err
		}
		if held {
			later, err := one(ctx, s, tx, value[int], "SELECT COUNT(*) FROM leases WHERE cluster_id = $1 AND generation > $2", cluster, generation)
			if err != nil {
				return err
			}
			if later > 0 {
				return overtaken(cluster)
			}
		}
		if err := s.current(ctx, tx); err != nil { // new rows carry MACs
			return err
		}
		return write(tx)
	})
}

// Release implements Lease.
func (l *lease) Release(ctx context.Context) error {
	l.cancel()
	<-l.done
	l.expiry.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	n, err := l.s.exec(ctx, l.s.log, "UPDATE leases SET held = 0 WHERE cluster_id = $1 AND generation = $2", l.cluster, l.generation)
	if err == nil && n == 1 { // otherwise another process holds the lease, and this one must still not write
		l.s.setFence(l.cluster, 0)
	}
	return l.s.wrap(err, "release the lease of %s", l.cluster)
}

// Leases implements Store.
func (s *database) Leases(ctx context.Context) ([]LeaseInfo, error) {
	found, err := list(ctx, s, s.log, scanLease, selectLease+" WHERE l.held = 1")
	if err != nil {
		return nil, s.wrap(err, "list the leases")
	}
	all := make([]LeaseInfo, 0, len(found))
	for _, l := range found {
		l.info.Alive = string(l.holder.Lives(s.self))
		all = append(all, l.info)
	}
	slices.SortFunc(all, func(a, b LeaseInfo) int { return strings.Compare(a.Cluster, b.Cluster) })
	return all, nil
}

const selectLease = `SELECT l.cluster_id, c.name, l.generation, l.held, l.verb, l.holder, l.acquired, l.heartbeat, l.expires, l.title, l.asker
	FROM leases l JOIN clusters c ON c.id = l.cluster_id`

// leaseRow is one row of leases.
type leaseRow struct {
	info   LeaseInfo
	held   bool
	holder process.ID
	asker  string // the user who requested the verb; empty: only the process is known
}

func scanLease(row scanner) (*leaseRow, error) {
	var l leaseRow
	var held int
	var who string
	var acquired, heartbeat, expires int64
	err := row.Scan(&l.info.ClusterID, &l.info.Cluster, &l.info.Generation, &held, &l.info.Verb, &who, &acquired, &heartbeat, &expires, &l.info.Title, &l.asker)
	if err != nil {
		return nil, err
	}
	if l.holder, err = process.Decode(who); err != nil {
		return nil, err
	}
	l.held = held != 0
	l.info.Holder = l.holder.String()
	l.info.Title, l.info.By = cmp.Or(l.info.Title, l.info.Verb), cmp.Or(l.asker, l.info.Holder)
	l.info.Acquired, l.info.Heartbeat, l.info.Expires = fromMicros(acquired), fromMicros(heartbeat), fromMicros(expires)
	return &l, nil
}
