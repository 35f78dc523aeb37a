package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

const selectRun = "SELECT id, cluster_id, cluster_name, verb, holder, meta, outcome, started, ended FROM runs"

// runRow is one row of runs.
type runRow struct {
	rec       plan.RunRecord
	clusterID string
	holder    holder
}

// Runs returns the newest runs first, of the clusters of one name or (empty) of all; at most limit, 0 meaning 20.
// A run whose process died has the outcome plan.OutcomeGone.
func (s *Store) Runs(ctx context.Context, clusterName string, limit int) ([]plan.RunRecord, error) {
	if limit <= 0 {
		limit = 20
	}
	rows, err := s.log.QueryContext(ctx, selectRun+" WHERE ? = '' OR cluster_name = ? ORDER BY started DESC, id DESC LIMIT ?",
		clusterName, clusterName, limit)
	if err != nil {
		return nil, s.wrap(err, "read the journal")
	}
	found, err := collect(rows, scanRun)
	if err != nil {
		return nil, s.wrap(err, "read the journal")
	}
	list := make([]plan.RunRecord, 0, len(found))
	for i := range found {
		if err := s.complete(ctx, &found[i]); err != nil {
			return nil, s.wrap(err, "read run %s", found[i].rec.ID)
		}
		list = append(list, found[i].rec)
	}
	return list, nil
}

// Run returns one run: fail.NotFound if the journal has none of this ID.
func (s *Store) Run(ctx context.Context, id string) (*plan.RunRecord, error) {
	r, err := scanRun(s.log.QueryRowContext(ctx, selectRun+" WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fail.New(fail.NotFound, "there is no run %s in the journal", id).Do("list them with: naupegos history")
	}
	if err == nil {
		err = s.complete(ctx, r)
	}
	if err != nil {
		return nil, s.wrap(err, "read run %s", id)
	}
	return &r.rec, nil
}

// complete adds the steps, what became of them, and whether the run's process still lives.
func (s *Store) complete(ctx context.Context, r *runRow) error {
	rows, err := s.log.QueryContext(ctx,
		"SELECT step_id, action, title, subject, reason, needs FROM run_steps WHERE run_id = ? ORDER BY seq", r.rec.ID)
	if err != nil {
		return err
	}
	if r.rec.Steps, err = collect(rows, scanStep); err != nil {
		return err
	}
	if err := s.replay(ctx, &r.rec); err != nil {
		return err
	}
	if r.rec.Outcome != plan.OutcomeRunning {
		return nil
	}
	gone, err := s.isGone(ctx, r)
	if gone {
		r.rec.Outcome = plan.OutcomeGone
	}
	return err
}

// replay applies the run's events to its steps.
func (s *Store) replay(ctx context.Context, rec *plan.RunRecord) (err error) {
	index := make(map[string]*plan.StepRecord, len(rec.Steps))
	for i := range rec.Steps {
		index[rec.Steps[i].ID] = &rec.Steps[i]
	}
	rows, err := s.log.QueryContext(ctx, "SELECT step_id, state, at, error FROM run_events WHERE run_id = ? ORDER BY seq", rec.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, text string
		var state plan.StepState
		var at int64
		if err := rows.Scan(&id, &state, &at, &text); err != nil {
			return err
		}
		if st := index[id]; st != nil {
			applyEvent(st, state, fromMicros(at), text)
		}
	}
	return rows.Err()
}

func applyEvent(st *plan.StepRecord, state plan.StepState, at time.Time, text string) {
	st.State = state
	switch {
	case state == plan.Running:
		st.Started = at
	case state == plan.Retrying:
		st.Retries = append(st.Retries, plan.Retry{At: at, Err: text})
	case state == plan.Skipped:
	case state.Final():
		st.Ended, st.Err = at, text
	}
}

// isGone reports whether the process of a run that never ended is gone: seen dead on this host, or (where that can't be
// seen) no longer holding the cluster's lease.
func (s *Store) isGone(ctx context.Context, r *runRow) (bool, error) {
	switch r.holder.lives(s.self) {
	case alive:
		return false, nil
	case dead:
		return true, nil
	}
	l, err := scanLease(s.log.QueryRowContext(ctx, selectLease+" WHERE l.cluster_id = ?", r.clusterID))
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !l.held || l.holder != r.holder || time.Now().After(l.info.Expires), nil
}

func scanRun(row interface{ Scan(...any) error }) (*runRow, error) {
	var r runRow
	var who, meta string
	var started, ended int64
	err := row.Scan(&r.rec.ID, &r.clusterID, &r.rec.Cluster, &r.rec.Verb, &who, &meta, &r.rec.Outcome, &started, &ended)
	if err != nil {
		return nil, err
	}
	if r.holder, err = decodeHolder(who); err != nil {
		return nil, err
	}
	r.rec.Holder, r.rec.Started, r.rec.Ended = r.holder.String(), fromMicros(started), fromMicros(ended)
	return &r, json.Unmarshal([]byte(meta), &r.rec.Meta)
}

func scanStep(row interface{ Scan(...any) error }) (*plan.StepRecord, error) {
	st := plan.StepRecord{State: plan.Pending}
	var needs string
	if err := row.Scan(&st.ID, &st.Action, &st.Title, &st.Subject, &st.Reason, &needs); err != nil {
		return nil, err
	}
	return &st, json.Unmarshal([]byte(needs), &st.Needs)
}
