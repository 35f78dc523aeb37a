package metal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// Report implements Store: one statement, because every machine does it each minute.
func (s machines) Report(ctx context.Context, r Report) error {
	var n int64
	err := s.db.Write(ctx, true, func(tx Querier) (err error) {
		n, err = run(ctx, tx, `INSERT INTO machine_reports (uuid, boot_id, digest, sequence, at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (uuid) DO UPDATE SET boot_id = excluded.boot_id, digest = excluded.digest, sequence = excluded.sequence, at = excluded.at
			WHERE machine_reports.sequence < excluded.sequence`, r.UUID, r.BootID, r.Digest, r.Sequence, micros(time.Now()))
		return err
	})
	switch {
	case s.db.IsForeignKey(err):
		return unknown(r.UUID)
	case err == nil && n == 0:
		return fail.New(fail.Conflict, "the report %d is not newer than the machine's last one", r.Sequence).At(r.UUID).
			Do("each report needs a greater sequence number than the one before: this one was sent twice, or by another machine")
	}
	return s.db.Wrap(err, "remember a report of the machine %s", r.UUID)
}

// Boots implements Store.
func (s machines) Boots(ctx context.Context, uuid string) (all []Boot, err error) {
	err = s.db.Read(ctx, func(q Querier) (err error) {
		all, err = rows(ctx, q, func(r *sql.Rows) (b Boot, err error) {
			var at int64
			err = r.Scan(&b.ID, &at)
			b.At = fromMicros(at)
			return b, err
		}, "SELECT boot_id, at FROM machine_boots WHERE uuid = $1 ORDER BY at DESC, boot_id", uuid)
		return err
	})
	return all, s.db.Wrap(err, "read the boots of the machine %s", uuid)
}

// Journal implements Store.
func (s machines) Journal(ctx context.Context, uuid, bootID, kind string) (*Journal, error) {
	j := &Journal{Kind: kind}
	var lines string
	var at int64
	err := s.db.Read(ctx, func(q Querier) error {
		query, args := "SELECT j.boot_id, j.at, j.lines FROM machine_journals j JOIN machine_boots b ON b.uuid = j.uuid AND b.boot_id = j.boot_id WHERE j.uuid = $1 AND j.kind = $2", []any{uuid, kind}
		if bootID != "" {
			query, args = query+" AND j.boot_id = $3", append(args, bootID)
		}
		return q.QueryRowContext(ctx, query+" ORDER BY b.at DESC LIMIT 1", args...).Scan(&j.BootID, &at, &lines)
	})
	if isNoRows(err) {
		e := fail.New(fail.NotFound, "there is no %s journal", kind).At(uuid)
		if bootID != "" {
			e = fail.New(fail.NotFound, "there is no %s journal of the boot %s", kind, bootID).At(uuid)
		}
		return nil, e.Do("naupegos machine show lists the boots that are remembered")
	}
	if err == nil {
		err = json.Unmarshal([]byte(lines), &j.Lines)
	}
	j.At = fromMicros(at)
	if err != nil {
		return nil, s.db.Wrap(err, "read a journal of the machine %s", uuid)
	}
	return j, nil
}

// Events implements Store.
func (s machines) Events(ctx context.Context, uuid string, limit int) (all []Event, err error) {
	err = s.db.Read(ctx, func(q Querier) (err error) {
		all, err = rows(ctx, q, func(r *sql.Rows) (e Event, err error) {
			var at int64
			err = r.Scan(&at, &e.What, &e.Detail)
			e.At = fromMicros(at)
			return e, err
		}, "SELECT at, what, detail FROM machine_events WHERE uuid = $1 ORDER BY seq DESC LIMIT $2", uuid, limit)
		return err
	})
	return all, s.db.Wrap(err, "read what happened to the machine %s", uuid)
}
