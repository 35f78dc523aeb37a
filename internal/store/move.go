package store

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/keyfile"
)

// Moved describes a completed move.
type Moved struct {
	To       string `json:"to"`
	Clusters []Kept `json:"clusters"`
	Aside    string `json:"aside,omitempty"` // see Restored
}

// Move copies a whole store into another one and makes users of the old store use the new one. The target must have no clusters, unless it was moved
// away itself or replace permits to overwrite them. No process may be working on a cluster of either store.
func Move(ctx context.Context, from, to Location, replace bool) (done *Moved, err error) {
	s, err := openWith(ctx, from, (*database).openExisting)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	n, err := openWith(ctx, to, (*database).openBare)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if s.where == n.where {
		return nil, fail.New(fail.Invalid, "the store is there already").At(n.where).Do("name another directory or database")
	}
	done = &Moved{To: n.where}
	_, err = s.inTx(ctx, s.db, func(old *sql.Tx) error {
		if err := s.leave(ctx, old, n.where); err != nil {
			return s.wrap(err, "move the store")
		}
		err := n.change(ctx, n.db, once, func(tx *sql.Tx) error {
			if _, err := n.clear(ctx, tx, replace); err != nil {
				return err
			}
			if err := n.fill(ctx, tx, old); err != nil {
				return err
			}
			done.Clusters, err = n.kept(ctx, tx)
			return err
		})
		if err != nil {
			return n.wrap(err, "move the store")
		}
		done.Aside, err = s.moveIdentity(filepath.Join(n.dir, identityFile))
		return err
	})
	if err != nil {
		return nil, s.wrap(err, "move the store")
	}
	return done, nil
}

// leave blocks other writers until the transaction ends, and any use of the store afterwards.
func (s *database) leave(ctx context.Context, tx *sql.Tx, to string) error {
	if do := s.d.SQL().Exclusive; do != "" {
		if _, err := tx.ExecContext(ctx, do); err != nil {
			return err
		}
	}
	if err := s.still(ctx, tx); err != nil {
		return err
	}
	return run(ctx, tx, "INSERT INTO store_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", movedFact, to)
}

// movedTo returns the location of the store that replaces this one; empty if none does.
func (s *database) movedTo(ctx context.Context, q querier) (string, error) {
	to, err := one(ctx, s, q, value[string], "SELECT value FROM store_facts WHERE name = $1", movedFact)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return to, err
}

// used refuses a store that was moved away.
func (s *database) used(ctx context.Context, q querier) error {
	to, err := s.movedTo(ctx, q)
	if err != nil {
		return s.wrap(err, "read the store")
	}
	if to == "" {
		return nil
	}
	return fail.New(fail.Refused, "this store was moved to %s, and is no longer used", to).At(s.where).
		Do("name that one by --store or --state-dir; naupegos store move brings it back")
}

// moveIdentity is putIdentity for the store's own identity, whose protection it keeps.
func (s *database) moveIdentity(path string) (aside string, err error) {
	aside, err = s.putIdentity(path, s.identity)
	if err != nil || s.protection == (Protection{}) {
		return aside, err
	}
	text, err := keyfile.ReadPrivate(filepath.Join(s.dir, identityFile))
	if err == nil {
		err = keyfile.Rewrite(path, text)
	}
	if err != nil {
		return aside, fail.Wrap(fail.Refused, err, "write the store's identity").At(path)
	}
	return aside, nil
}
