// Package schema has the migrations of the store's schema, in SQL and in Go. Its versions have consecutive numbers.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Version is the number of the newest migration, in SQL or in Go.
const Version = 19

// Up runs the missing migrations up to a version.
func Up(ctx context.Context, db *sql.DB, dialect goose.Dialect, to int) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, db, files, goose.WithGoMigrations(factsTable(), unusableColumn(), machineMACs()))
	if err != nil {
		return err
	}
	_, err = provider.UpTo(ctx, int64(to))
	return err
}

// rows returns all rows of a query.
func rows[T any](ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), query string) (all []T, err error) {
	found, err := tx.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		v, err := scan(found)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, found.Err()
}

// factsTable is migration 2: until then, facts were JSON in a column of clusters, with keys made of kind and subject.
func factsTable() *goose.Migration {
	return goose.NewGoMigration(2, &goose.GoFunc{RunTx: makeFactsTable}, nil)
}

func makeFactsTable(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE facts (
		cluster_id TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
		kind       TEXT NOT NULL,
		subject    TEXT NOT NULL, -- empty: the cluster itself
		value      TEXT NOT NULL,
		PRIMARY KEY (cluster_id, kind, subject))`)
	if err != nil {
		return err
	}
	type row struct{ id, facts string }
	found, err := rows(ctx, tx, func(s *sql.Rows) (r row, err error) {
		err = s.Scan(&r.id, &r.facts)
		return r, err
	}, "SELECT id, facts FROM clusters")
	if err != nil {
		return err
	}
	for _, r := range found {
		var old map[string]string
		if err := json.Unmarshal([]byte(r.facts), &old); err != nil {
			return err
		}
		for key, value := range old {
			kind, subject := factOfKey(key)
			if _, err := tx.ExecContext(ctx, "INSERT INTO facts (cluster_id, kind, subject, value) VALUES ($1, $2, $3, $4)", r.id, kind, subject, value); err != nil {
				return err
			}
		}
	}
	_, err = tx.ExecContext(ctx, "ALTER TABLE clusters DROP COLUMN facts")
	return err
}

// factOfKey returns the fact for a key of schema 1.
func factOfKey(key string) (kind, subject string) {
	for prefix, kind := range map[string]string{
		"etcd-join/": "etcd-join", "host/": "host", "hostkeys/": "console-host-keys", "host-key/": "trusted-host-key", "fate/": "decision",
		"wireguard/gateway/": "wireguard-gateway", "wireguard/peer/": "wireguard-peer",
	} {
		if subject, ok := strings.CutPrefix(key, prefix); ok {
			return kind, subject
		}
	}
	return key, ""
}

// unusableColumn is migration 10: it stores why machines can't be used, which until then was computed from reports and records and could not be
// searched.
func unusableColumn() *goose.Migration {
	return goose.NewGoMigration(10, &goose.GoFunc{RunTx: addUnusable}, nil)
}

func addUnusable(ctx context.Context, tx *sql.Tx) error {
	for _, do := range []string{"ALTER TABLE machines ADD COLUMN unusable TEXT NOT NULL DEFAULT ''", // a word of internal/registry; empty: it can be used
		"CREATE INDEX machines_by_unusable ON machines (unusable) WHERE unusable <> ''"} {
		if _, err := tx.ExecContext(ctx, do); err != nil {
			return err
		}
	}
	type row struct{ uuid, state, approval, record string }
	found, err := rows(ctx, tx, func(s *sql.Rows) (r row, err error) {
		err = s.Scan(&r.uuid, &r.state, &r.approval, &r.record)
		return r, err
	}, "SELECT uuid, state, approval, record FROM machines")
	if err != nil {
		return err
	}
	for _, r := range found {
		var known struct{ Maintenance, Disks string }
		if err := json.Unmarshal([]byte(r.record), &known); err != nil {
			return err
		}
		word := ""
		switch {
		case r.approval != "approved":
			word = "unapproved"
		case known.Maintenance != "":
			word = "maintenance"
		case r.state == "failed":
			word = "failed"
		case known.Disks == "":
			word = "diskless"
		}
		if _, err := tx.ExecContext(ctx, "UPDATE machines SET unusable = $1 WHERE uuid = $2", word, r.uuid); err != nil {
			return err
		}
	}
	return nil
}
