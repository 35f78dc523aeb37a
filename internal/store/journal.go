package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// keepRuns is how many runs of one cluster name the journal keeps.
const keepRuns = 500

// journal writes the runs of one cluster.
type journal struct {
	s       *Store
	cluster string
	seq     atomic.Int64
}

// Journal returns the journal of the cluster with this ID. Its runs outlive the cluster, under the cluster's name.
func (s *Store) Journal(clusterID string) plan.Journal { return &journal{s: s, cluster: clusterID} }

// Begin records the plan.
func (j *journal) Begin(ctx context.Context, p *plan.Plan, meta map[string]string) (string, error) {
	facts, err := encodeFacts(meta)
	if err != nil {
		return "", err
	}
	now := time.Now()
	id := now.UTC().Format("20060102-150405") + "-" + randomHex(6)
	err = inTx(ctx, j.s.log, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO runs (id, cluster_id, cluster_name, verb, holder, meta, outcome, started, ended)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)`,
			id, j.cluster, p.Cluster, p.Verb, j.s.self.encode(), facts, plan.OutcomeRunning, micros(now))
		if err != nil {
			return err
		}
		for i, st := range p.Steps {
			if err := insertStep(ctx, tx, id, i, st); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM runs WHERE cluster_name = ? AND id NOT IN
			(SELECT id FROM runs WHERE cluster_name = ? ORDER BY started DESC, id DESC LIMIT ?)`, p.Cluster, p.Cluster, keepRuns)
		return err
	})
	return id, j.s.wrap(err, "record the plan")
}

func insertStep(ctx context.Context, tx *sql.Tx, run string, seq int, st *plan.Step) error {
	needs := st.Needs
	if needs == nil {
		needs = []string{}
	}
	raw, err := json.Marshal(needs)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO run_steps (run_id, seq, step_id, action, title, subject, reason, needs)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, run, seq, st.ID, st.Action, st.Title, st.Subject, st.Reason, string(raw))
	return err
}

// Step records that a step came into a state.
func (j *journal) Step(ctx context.Context, run, id string, state plan.StepState, at time.Time, errText string) error {
	_, err := j.s.log.ExecContext(ctx, "INSERT INTO run_events (run_id, seq, step_id, state, at, error) VALUES (?, ?, ?, ?, ?, ?)",
		run, j.seq.Add(1), id, state, micros(at), errText)
	return j.s.wrap(err, "record that %s is %s", id, state)
}

// End records the run's outcome.
func (j *journal) End(ctx context.Context, run string, outcome plan.Outcome) error {
	res, err := j.s.log.ExecContext(ctx, "UPDATE runs SET outcome = ?, ended = ? WHERE id = ?", outcome, micros(time.Now()), run)
	if err != nil {
		return j.s.wrap(err, "record the end of run %s", run)
	}
	if n, err := res.RowsAffected(); err == nil && n == 0 {
		return fail.New(fail.NotFound, "there is no run %s in the journal", run)
	}
	return nil
}
