package store

import (
	"context"
	"database/sql"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/store/engine"
	"github.com/naupegos/naupegos/internal/store/together"
)

// useSQLite opens the file in the store's directory.
func (s *database) useSQLite() (err error) {
	path := filepath.Join(s.dir, DatabaseFile)
	if err := privateFile(path); err != nil {
		return err
	}
	s.d = engine.NewSQLite(path, filepath.Join(s.dir, lockFile), s.wait)
	if s.db, err = engine.OpenSQLite(path, "FULL"); err != nil {
		return err
	}
	if s.log, err = engine.OpenSQLite(path, "NORMAL"); err != nil {
		return err
	}
	if s.reads, err = engine.OpenSQLite(path, "NORMAL", "query_only(1)"); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(readers)
	s.reads.SetMaxIdleConns(readers)
	s.turn = make(turn, 1)
	s.together = together.New(s.beginTogether)
	return nil
}

// readers is the maximum number of concurrent readers.
const readers = 4

// turn lets goroutines write one at a time, in order of arrival. Without it, connections of one process would poll for SQLite's lock, and an unlucky
// one could wait for seconds. A nil turn does not limit writers.
type turn chan struct{}

// take waits for the turn, which end returns.
func (t turn) take(ctx context.Context) (end func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// beginTogether implements together.Begin.
func (s *database) beginTogether(ctx context.Context, durable bool) (*sql.Tx, func(), error) {
	end, err := s.turn.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	db := s.log
	if durable {
		db = s.db
	}
	tx, err := s.wait.Begin(ctx, db, nil)
	if err != nil {
		end()
	}
	return tx, end, err
}
