package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// KeepRuns is the number of runs that the journal keeps per cluster name.
const KeepRuns = 500

// journal writes the runs of one cluster.
type journal struct {
	s       *database
	cluster string
	seq     atomic.Int64
}

// Journal implements Store.
func (s *database) Journal(clusterID string) plan.Journal { return &journal{s: s, cluster: clusterID} }

// Begin records the plan.
func (j *journal) Begin(ctx context.Context, p *plan.Plan, meta map[string]string) (string, error) {
	if meta == nil {
		meta = map[string]string{}
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "encode the run's message")
	}
	now := time.Now()
	id := now.UTC().Format("20060102-150405") + "-" + randomHex(6)
	err = j.s.change(ctx, j.s.log, once, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO runs (id, cluster_id, cluster_name, verb, title, subject, holder, meta, outcome, started, ended)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0)`,
			id, j.cluster, p.Cluster, p.Verb, p.Title, p.Subject, j.s.self.Encode(), string(text), plan.OutcomeRunning, micros(now))
		if err != nil {
			return err
		}
		for i, st := range p.Steps {
			if err := insertStep(ctx, tx, id, i, st); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM runs WHERE cluster_name = $1 AND id NOT IN
			(SELECT id FROM runs WHERE cluster_name = $2 ORDER BY started DESC, id DESC LIMIT $3)`, p.Cluster, p.Cluster, KeepRuns)
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
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, run, seq, st.ID, st.Action, st.Title, st.Subject, st.Reason, string(raw))
	return err
}

// Step records a step's new state.
func (j *journal) Step(ctx context.Context, run, id string, state plan.StepState, at time.Time, errText string) error {
	_, err := j.s.exec(ctx, j.s.log, `INSERT INTO run_events (run_id, seq, step_id, state, at, error) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (run_id, seq) DO NOTHING`, run, j.seq.Add(1), id, state, micros(at), printable(errText))
	return j.s.wrap(err, "record that %s is %s", id, state)
}

// End records the run's outcome.
func (j *journal) End(ctx context.Context, run string, outcome plan.Outcome, e *plan.Evidence) error {
	text := []byte{}
	if e != nil {
		var err error
		if text, err = json.Marshal(e); err != nil {
			return fail.Wrap(fail.Internal, err, "encode the evidence of run %s", run)
		}
	}
	n, err := j.s.exec(ctx, j.s.log, "UPDATE runs SET outcome = $1, ended = $2, evidence = $3 WHERE id = $4", outcome, micros(time.Now()), string(text), run)
	if err != nil {
		return j.s.wrap(err, "record the end of run %s", run)
	}
	if n == 0 {
		return fail.New(fail.NotFound, "there is no run %s in the journal", run)
	}
	return nil
}

// printable returns text without characters that a database may refuse; parts of it may come from machines.
func printable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
