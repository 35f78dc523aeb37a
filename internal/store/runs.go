package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store/process"
)

const selectRun = "SELECT id, cluster_id, cluster_name, verb, title, subject, evidence, holder, meta, outcome, started, ended FROM runs"

// runRow is one row of runs.
type runRow struct {
	rec       plan.RunRecord
	clusterID string
	holder    process.ID
}

// Runs implements Store.
func (s *database) Runs(ctx context.Context, clusterName string, limit int) ([]plan.RunRecord, error) {
	if limit <= 0 {
		limit = 20
	}
	found, err := list(ctx, s, s.reads, scanRun, selectRun+" WHERE $1 = '' OR cluster_name = $1 ORDER BY started DESC, id DESC LIMIT $2",
		clusterName, limit)
	if err != nil {
		return nil, s.wrap(err, "read the journal")
	}
	all := make([]plan.RunRecord, 0, len(found))
	for _, r := range found {
		if err := s.complete(ctx, r); err != nil {
			return nil, s.wrap(err, "read run %s", r.rec.ID)
		}
		all = append(all, r.rec)
	}
	return all, nil
}

// Run implements Store.
func (s *database) Run(ctx context.Context, id string) (*plan.RunRecord, error) {
	r, err := one(ctx, s, s.reads, scanRun, selectRun+" WHERE id = $1", id)
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

// complete adds the steps, their states, and whether the run's process is still alive.
func (s *database) complete(ctx context.Context, r *runRow) (err error) {
	r.rec.Steps, err = list(ctx, s, s.reads, scanStep,
		"SELECT step_id, action, title, subject, reason, needs FROM run_steps WHERE run_id = $1 ORDER BY seq", r.rec.ID)
	if err != nil {
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
func (s *database) replay(ctx context.Context, rec *plan.RunRecord) error {
	index := make(map[string]*plan.StepRecord, len(rec.Steps))
	for i := range rec.Steps {
		index[rec.Steps[i].ID] = &rec.Steps[i]
	}
	events, err := list(ctx, s, s.reads, scanEvent, "SELECT step_id, state, at, error FROM run_events WHERE run_id = $1 ORDER BY seq", rec.ID)
	for _, e := range events {
		if st := index[e.step]; st != nil {
			e.apply(st)
		}
	}
	return err
}

// event is one row of run_events.
type event struct {
	step, text string
	state      plan.StepState
	at         time.Time
}

func scanEvent(row scanner) (e event, err error) {
	var at int64
	err = row.Scan(&e.step, &e.state, &at, &e.text)
	e.at = fromMicros(at)
	return e, err
}

func (e event) apply(st *plan.StepRecord) {
	st.State = e.state
	switch {
	case e.state == plan.Running:
		st.Started = e.at
	case e.state == plan.Retrying:
		st.Retries = append(st.Retries, plan.Retry{At: e.at, Err: e.text})
	case e.state == plan.Skipped:
	case e.state.Final():
		st.Ended, st.Err = e.at, e.text
	}
}

// isGone reports whether the process of an unfinished run is gone: it is dead on this host or, if that can't be determined, no longer holds the
// cluster's lease.
func (s *database) isGone(ctx context.Context, r *runRow) (bool, error) {
	switch r.holder.Lives(s.self) {
	case process.Alive:
		return false, nil
	case process.Dead:
		return true, nil
	}
	l, err := one(ctx, s, s.reads, scanLease, selectLease+" WHERE l.cluster_id = $1", r.clusterID)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	now, err := s.now(ctx, s.log)
	return !l.held || l.holder != r.holder || now.After(l.info.Expires), err
}

func scanRun(row scanner) (*runRow, error) {
	var r runRow
	var who, meta, evidence string
	var started, ended int64
	err := row.Scan(&r.rec.ID, &r.clusterID, &r.rec.Cluster, &r.rec.Verb, &r.rec.Title, &r.rec.Subject, &evidence, &who, &meta, &r.rec.Outcome, &started, &ended)
	if err != nil {
		return nil, err
	}
	if r.holder, err = process.Decode(who); err != nil {
		return nil, err
	}
	r.rec.Holder, r.rec.Started, r.rec.Ended = r.holder.String(), fromMicros(started), fromMicros(ended)
	if err := json.Unmarshal([]byte(meta), &r.rec.Meta); err != nil {
		return nil, err
	}
	r.rec.Title, r.rec.By = cmp.Or(r.rec.Title, r.rec.Verb), cmp.Or(r.rec.Meta[plan.MetaBy], r.rec.Holder)
	if evidence == "" {
		return &r, nil
	}
	return &r, json.Unmarshal([]byte(evidence), &r.rec.Evidence)
}

func scanStep(row scanner) (plan.StepRecord, error) {
	st := plan.StepRecord{State: plan.Pending}
	var needs string
	if err := row.Scan(&st.ID, &st.Action, &st.Title, &st.Subject, &st.Reason, &needs); err != nil {
		return st, err
	}
	return st, json.Unmarshal([]byte(needs), &st.Needs)
}
