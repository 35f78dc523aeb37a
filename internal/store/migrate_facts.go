package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"github.com/pressly/goose/v3"
)

// factsTable is migration 2: facts were JSON in a column of clusters, under keys that held kind and subject.
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
		facts := Facts{}
		for key, value := range old {
			facts[factOfKey(key)] = value
		}
		if err := putFacts(ctx, tx, r.id, facts); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "ALTER TABLE clusters DROP COLUMN facts")
	return err
}

// factOfKey returns the fact that a key of schema 1 stood for.
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
