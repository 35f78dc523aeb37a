// Package health stores, for each cluster, how a server found it at the last look.
//
// It uses SQL on the database that internal/store opens, the same on SQLite and PostgreSQL. The meaning of states and reports is known only to
// internal/server/watch.
package health

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Store keeps one record per cluster.
type Store interface {
	// Take reserves the next look at a cluster for ttl, and reports whether it is due and no look is reserved, by this holder
	// or another. The database's clock decides.
	Take(ctx context.Context, clusterID, holder string, ttl time.Duration) (bool, error)
	// Put stores what the holder of a look saw, and when the next look is due. A record without a report keeps the previous report. It returns
	// fail.Conflict if another holder has taken the look over or the cluster is gone.
	Put(ctx context.Context, holder string, r Record, again time.Duration) error
	// Hurry makes the next look due now.
	Hurry(ctx context.Context, clusterID string) error
	// All returns the records of all clusters, without their reports, by cluster ID.
	All(ctx context.Context) (map[string]Record, error)
	// Get returns a cluster's record, or nil if no look has been recorded yet.
	Get(ctx context.Context, clusterID string) (*Record, error)
}

// Record is the state of a cluster at the last look.
type Record struct {
	ClusterID string
	Looked    time.Time // zero: never
	Answered  time.Time // when Report was made; zero if there is no report
	State     string
	Cause     string
	Remedy    string
	Summary   json.RawMessage
	Report    json.RawMessage // of the last look that the cluster answered
}

type records struct{ db metal.DB }

// New returns the records in a database.
func New(db metal.DB) Store { return records{db} }

// Take implements Store.
func (s records) Take(ctx context.Context, clusterID, holder string, ttl time.Duration) (mine bool, err error) {
	err = s.db.Write(ctx, true, func(tx metal.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO health (cluster_id, due, holder, expires, looked, answered, state, cause, remedy, summary, report)
			VALUES ($1, 0, $2, $3, 0, 0, '', '', '', '', '')
			ON CONFLICT (cluster_id) DO UPDATE SET holder = excluded.holder, expires = excluded.expires WHERE health.due <= $4 AND health.expires <= $4`,
			clusterID, holder, now.Add(ttl).UnixMicro(), now.UnixMicro())
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		mine = n == 1
		return err
	})
	if s.db.IsForeignKey(err) { // the cluster is gone; checked outside the transaction, because PostgreSQL commits no transaction with a failed statement
		return false, nil
	}
	return mine, s.db.Wrap(err, "reserve a look at a cluster")
}

// Put implements Store.
func (s records) Put(ctx context.Context, holder string, r Record, again time.Duration) error {
	err := s.db.Write(ctx, true, func(tx metal.Querier) error {
		now, err := s.db.Now(ctx, tx)
		if err != nil {
			return err
		}
		set, args := "", []any{now.Add(again).UnixMicro(), now.UnixMicro(), r.State, r.Cause, r.Remedy, r.ClusterID, holder}
		if len(r.Report) > 0 {
			set, args = ", answered = $2, summary = $8, report = $9", append(args, string(r.Summary), string(r.Report))
		}
		res, err := tx.ExecContext(ctx, "UPDATE health SET due = $1, looked = $2, state = $3, cause = $4, remedy = $5, holder = '', expires = 0"+set+" WHERE cluster_id = $6 AND holder = $7", args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return fail.New(fail.Conflict, "another server looks at the cluster by now, or it is gone").At(r.ClusterID)
	})
	return s.db.Wrap(err, "record the health of a cluster")
}

// Hurry implements Store.
func (s records) Hurry(ctx context.Context, clusterID string) error {
	err := s.db.Write(ctx, true, func(tx metal.Querier) error {
		_, err := tx.ExecContext(ctx, "UPDATE health SET due = 0 WHERE cluster_id = $1", clusterID)
		return err
	})
	return s.db.Wrap(err, "ask for a look at a cluster")
}

const columns = "SELECT cluster_id, looked, answered, state, cause, remedy, summary"

// All implements Store.
func (s records) All(ctx context.Context) (all map[string]Record, err error) {
	err = s.db.Read(ctx, func(q metal.Querier) (err error) {
		all = map[string]Record{}
		rows, err := q.QueryContext(ctx, columns+", '' FROM health WHERE looked > 0")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			r, err := scan(rows)
			if err != nil {
				return err
			}
			all[r.ClusterID] = *r
		}
		return rows.Err()
	})
	return all, s.db.Wrap(err, "read the health of clusters")
}

// Get implements Store.
func (s records) Get(ctx context.Context, clusterID string) (r *Record, err error) {
	err = s.db.Read(ctx, func(q metal.Querier) (err error) {
		r, err = scan(q.QueryRowContext(ctx, columns+", report FROM health WHERE looked > 0 AND cluster_id = $1", clusterID))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, s.db.Wrap(err, "read the health of a cluster")
}

func scan(row interface{ Scan(into ...any) error }) (*Record, error) {
	var r Record
	var looked, answered int64
	var summary, report string
	if err := row.Scan(&r.ClusterID, &looked, &answered, &r.State, &r.Cause, &r.Remedy, &summary, &report); err != nil {
		return nil, err
	}
	r.Looked = time.UnixMicro(looked).UTC()
	if answered > 0 {
		r.Answered = time.UnixMicro(answered).UTC()
	}
	r.Summary, r.Report = raw(summary), raw(report)
	return &r, nil
}

func raw(text string) json.RawMessage { return append(json.RawMessage(nil), text...) } // nil if it is empty
