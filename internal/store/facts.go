package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// SetFact implements Store.
func (s *database) SetFact(ctx context.Context, clusterID string, f Fact, value string) error {
	known := false
	err := s.fenced(ctx, clusterID, func(tx *sql.Tx) (err error) {
		known, err = updated(tx.ExecContext(ctx, "UPDATE clusters SET updated_at = $1 WHERE id = $2", micros(time.Now()), clusterID))
		if err != nil || !known {
			return err
		}
		if value == "" {
			return run(ctx, tx, "DELETE FROM facts WHERE cluster_id = $1 AND kind = $2 AND subject = $3", clusterID, f.Kind, f.Subject)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO facts (cluster_id, kind, subject, value, mac) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (cluster_id, kind, subject) DO UPDATE SET value = excluded.value, mac = excluded.mac`, clusterID, f.Kind, f.Subject, value,
			s.mac(rowmac.Facts, clusterID, f.Kind, f.Subject, value))
		return err
	})
	if err == nil && !known {
		return s.unknown(ctx, s.reads, clusterID)
	}
	return s.wrap(err, "remember %s of the cluster %s", f, clusterID)
}

// updated reports whether a statement changed a row.
func updated(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// putFacts replaces all facts of a cluster.
func (s *database) putFacts(ctx context.Context, tx *sql.Tx, cluster string, facts Facts) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM facts WHERE cluster_id = $1", cluster); err != nil {
		return err
	}
	columns := []string{"cluster_id", "kind", "subject", "value", "mac"}
	var values []any
	for f, v := range facts {
		if values = append(values, cluster, f.Kind, f.Subject, v, s.mac(rowmac.Facts, cluster, f.Kind, f.Subject, v)); len(values) == batch*len(columns) {
			if err := insert(ctx, tx, "facts", columns, values); err != nil {
				return err
			}
			values = values[:0]
		}
	}
	return insert(ctx, tx, "facts", columns, values)
}

// factRow is one row of facts.
type factRow struct {
	cluster, value, mac string
	fact                Fact
}

func (f *factRow) macValues() []string {
	return []string{f.cluster, f.fact.Kind, f.fact.Subject, f.value}
}

func scanFact(row scanner) (f factRow, err error) {
	err = row.Scan(&f.cluster, &f.fact.Kind, &f.fact.Subject, &f.value, &f.mac)
	return f, err
}

const selectFacts = "SELECT cluster_id, kind, subject, value, mac FROM facts"

// facts reads the facts of one cluster.
func (s *database) facts(ctx context.Context, cluster string) (Facts, error) {
	rows, err := list(ctx, s, s.reads, scanFact, selectFacts+" WHERE cluster_id = $1", cluster)
	facts := Facts{}
	for _, r := range rows {
		if err := s.verify(ctx, rowmac.Facts, r.mac, r.macValues()...); err != nil {
			return nil, err
		}
		facts[r.fact] = r.value
	}
	return facts, err
}

// allFacts reads the facts of all clusters, by cluster ID.
func (s *database) allFacts(ctx context.Context, q querier, verify verifier) (map[string]Facts, error) {
	rows, err := list(ctx, s, q, scanFact, selectFacts)
	all := map[string]Facts{}
	for _, r := range rows {
		if err := verify(ctx, rowmac.Facts, r.mac, r.macValues()...); err != nil {
			return nil, err
		}
		if all[r.cluster] == nil {
			all[r.cluster] = Facts{}
		}
		all[r.cluster][r.fact] = r.value
	}
	return all, err
}
