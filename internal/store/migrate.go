package store

import (
	"context"
	"database/sql"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/schema"
)

// migrate brings the schema up to date. If it is current, this costs one query.
func (s *database) migrate(ctx context.Context) error {
	have, err := s.version(ctx)
	if err != nil || have == schema.Version {
		return err
	}
	unlock, err := s.d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if have, err = s.version(ctx); err != nil || have == schema.Version { // another process was faster
		return err
	}
	if do := s.d.SQL().Prepare; do != "" {
		if _, err := s.db.ExecContext(ctx, do); err != nil {
			return s.wrap(err, "make the store")
		}
	}
	return s.up(ctx, have, schema.Version)
}

// up runs the missing migrations up to a version.
func (s *database) up(ctx context.Context, have, to int) error {
	return s.wrap(schema.Up(ctx, s.db, s.d.SQL().Goose, to), "bring the store's schema from version %d to %d", have, to)
}

// version returns the schema's version, 0 for an empty database. It refuses versions from the future.
func (s *database) version(ctx context.Context) (int, error) {
	there, err := one(ctx, s, s.db, value[int], s.d.SQL().Has, "goose_db_version")
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
	if have.Int64 > schema.Version {
		return 0, fail.New(fail.Refused, "the store was written by a newer naupegos (schema %d, this one knows %d)", have.Int64, schema.Version).
			At(s.where).Do("use the newer naupegos, or name another store by --state-dir or --store")
	}
	return int(have.Int64), nil
}
