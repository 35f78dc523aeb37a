package store

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the number of the newest migration, in SQL or in Go.
const schemaVersion = 18

// migrate brings the schema up to date. If it is current, this costs one query.
func (s *database) migrate(ctx context.Context) error {
	have, err := s.version(ctx)
	if err != nil || have == schemaVersion {
		return err
	}
	unlock, err := s.d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if have, err = s.version(ctx); err != nil || have == schemaVersion { // another process was faster
		return err
	}
	if do := s.d.sql().prepare; do != "" {
		if _, err := s.db.ExecContext(ctx, do); err != nil {
			return s.wrap(err, "make the store")
		}
	}
	return s.up(ctx, have, schemaVersion)
}

// up runs the missing migrations up to a version.
func (s *database) up(ctx context.Context, have, to int) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return s.wrap(err, "find the store's migrations")
	}
	provider, err := goose.NewProvider(s.d.sql().goose, s.db, files, goose.WithGoMigrations(factsTable(), unusableColumn()))
	if err != nil {
		return s.wrap(err, "read the store's migrations")
	}
	if _, err := provider.UpTo(ctx, int64(to)); err != nil {
		return s.wrap(err, "bring the store's schema from version %d to %d", have, to)
	}
	return nil
}

// version returns the schema's version, 0 for an empty database. It refuses versions from the future.
func (s *database) version(ctx context.Context) (int, error) {
	there, err := one(ctx, s, s.db, value[int], s.d.sql().has, "goose_db_version")
	if err != nil {
		return 0, s.wrap(err, "read the store")
	}
	if there == 0 {
		return 0, nil
	}
	have, err := one(ctx, s, s.db, value[sql.NullInt64], "SELECT MAX(version_id) FROM goose_db_version")
	if err != nil {
		return 0, s.wrap(err, "read the store's schema version")
	}
	if have.Int64 > schemaVersion {
		return 0, fail.New(fail.Refused, "the store was written by a newer naupegos (schema %d, this one knows %d)", have.Int64, schemaVersion).
			At(s.where).Do("use the newer naupegos, or name another store by --state-dir or --store")
	}
	return int(have.Int64), nil
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
	found, err := collect(ctx, tx, func(s scanner) (r row, err error) {
		err = s.Scan(&r.id, &r.facts)
		return r, err
	}, "SELECT id, facts FROM clusters", nil)
	if err != nil {
		return err
	}
	for _, r := range found {
		var old map[string]string
		if err := json.Unmarshal([]byte(r.facts), &old); err != nil {
			return err
		}
		for key, value := range old {
			f := factOfKey(key)
			if err := run(ctx, tx, "INSERT INTO facts (cluster_id, kind, subject, value) VALUES ($1, $2, $3, $4)", r.id, f.Kind, f.Subject, value); err != nil {
				return err
			}
		}
	}
	return run(ctx, tx, "ALTER TABLE clusters DROP COLUMN facts")
}

// factOfKey returns the fact for a key of schema 1.
func factOfKey(key string) Fact {
	for prefix, kind := range map[string]string{
		"etcd-join/": "etcd-join", "host/": "host", "hostkeys/": "console-host-keys", "host-key/": "trusted-host-key", "fate/": "decision",
		"wireguard/gateway/": "wireguard-gateway", "wireguard/peer/": "wireguard-peer",
	} {
		if subject, ok := strings.CutPrefix(key, prefix); ok {
			return Fact{kind, subject}
		}
	}
	return Fact{Kind: key}
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
	found, err := collect(ctx, tx, func(s scanner) (r row, err error) {
		err = s.Scan(&r.uuid, &r.state, &r.approval, &r.record)
		return r, err
	}, "SELECT uuid, state, approval, record FROM machines", nil)
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
