package metal

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Take implements Store.
func (s machines) Take(ctx context.Context, w Want) (granted bool, who []Slot, err error) {
	if w.Group == "" || w.Holder == "" || w.Bound < 1 {
		return false, nil, fail.New(fail.Invalid, "a place needs a group, a holder and a bound")
	}
	if full, who, err := s.full(ctx, w); full || err != nil {
		return false, who, s.db.Wrap(err, "take a place of %s", w.Group)
	}
	err = s.db.Write(ctx, false, func(tx Querier) error {
		granted = false
		if err := s.quiet(ctx, tx, cmp.Or(w.Cluster, w.Heeds), s.db.ForUpdate()); err != nil {
			return err
		}
		if err := s.lock(ctx, tx, "slots/"+w.Group); err != nil {
			return err
		}
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		if who, err = held(ctx, tx, w.Group, now); err != nil {
			return err
		}
		mine, others := place(who, w.Holder)
		if mine == nil && others >= w.Bound {
			return nil
		}
		granted = true
		got := Slot{Group: w.Group, Holder: w.Holder, Detail: w.Detail, Acquired: now}
		if mine != nil {
			got.Acquired = mine.Acquired
		}
		if w.TTL > 0 {
			got.Expires = now.Add(w.TTL)
		}
		if err := putSlot(ctx, tx, got, w.Cluster, now); err != nil {
			return err
		}
		who, err = held(ctx, tx, w.Group, now)
		return err
	})
	return granted, who, s.db.Wrap(err, "take a place of %s", w.Group)
}

// full reports whether other machines hold all places, or refuses as Take does. It only reads, so that writers need not wait for the many machines that ask again and again.
func (s machines) full(ctx context.Context, w Want) (is bool, who []Slot, err error) {
	err = s.db.Read(ctx, func(q Querier) error {
		if err := s.quiet(ctx, q, cmp.Or(w.Cluster, w.Heeds), ""); err != nil {
			return err
		}
		now, err := s.db.Now(ctx, q)
		if err == nil {
			who, err = held(ctx, q, w.Group, now)
		}
		return err
	})
	mine, others := place(who, w.Holder)
	return err == nil && mine == nil && others >= w.Bound, who, err
}

// place finds a holder's own place, and counts those of others.
func place(who []Slot, holder string) (mine *Slot, others int) {
	for i := range who {
		if who[i].Holder == holder {
			mine = &who[i]
		} else {
			others++
		}
	}
	return mine, others
}

// quiet refuses a place with fail.Conflict while the cluster's lease is held. A process that takes that lease checks for places. lock ends a
// SELECT whose rows no other process may change.
func (s machines) quiet(ctx context.Context, tx Querier, cluster, lock string) error {
	if cluster == "" {
		return nil
	}
	var id string
	if err := tx.QueryRowContext(ctx, "SELECT id FROM clusters WHERE id = $1"+lock, cluster).Scan(&id); isNoRows(err) {
		return nil // a cluster that is not stored has no lease
	} else if err != nil {
		return err
	}
	now, err := s.db.Now(ctx, tx)
	if err != nil {
		return err
	}
	var verb string
	err = tx.QueryRowContext(ctx, "SELECT verb FROM leases WHERE cluster_id = $1 AND held = 1 AND expires > $2", cluster, micros(now)).Scan(&verb)
	if isNoRows(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fail.New(fail.Conflict, "%s is running", verb).At(cluster).Do("ask again when it is done")
}

func putSlot(ctx context.Context, tx Querier, p Slot, cluster string, now time.Time) error {
	if _, err := run(ctx, tx, "DELETE FROM slots WHERE group_name = $1 AND expires > 0 AND expires <= $2", p.Group, micros(now)); err != nil {
		return err
	}
	_, err := run(ctx, tx, `INSERT INTO slots (group_name, holder, detail, cluster_id, acquired, expires) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (group_name, holder) DO UPDATE SET detail = excluded.detail, cluster_id = excluded.cluster_id, expires = excluded.expires`,
		p.Group, p.Holder, p.Detail, cluster, micros(p.Acquired), micros(p.Expires))
	return err
}

// Give implements Store.
func (s machines) Give(ctx context.Context, group, holder string) (was bool, err error) {
	err = s.db.Write(ctx, false, func(tx Querier) error {
		n, err := run(ctx, tx, "DELETE FROM slots WHERE group_name = $1 AND holder = $2", group, holder)
		was = was || n > 0 // where it is carried out twice, the first time counts
		return err
	})
	return was, s.db.Wrap(err, "give a place of %s back", group)
}

// Slots implements Store.
func (s machines) Slots(ctx context.Context, group string) (all []Slot, err error) {
	err = s.db.Read(ctx, func(q Querier) error {
		now, err := s.db.Now(ctx, q)
		if err == nil {
			all, err = held(ctx, q, group, now)
		}
		return err
	})
	return all, s.db.Wrap(err, "read the places that are held")
}

// held reads the places that are held at a moment; of one group, or of all.
func held(ctx context.Context, q Querier, group string, now time.Time) ([]Slot, error) {
	query, args := "SELECT group_name, holder, detail, acquired, expires FROM slots WHERE (expires = 0 OR expires > $1)", []any{micros(now)}
	if group != "" {
		query, args = query+" AND group_name = $2", append(args, group)
	}
	return rows(ctx, q, func(r *sql.Rows) (p Slot, err error) {
		var acquired, expires int64
		err = r.Scan(&p.Group, &p.Holder, &p.Detail, &acquired, &expires)
		p.Acquired, p.Expires = fromMicros(acquired), fromMicros(expires)
		return p, err
	}, query+" ORDER BY group_name, holder", args...)
}
