package store

import "github.com/naupegos/naupegos/internal/store/engine"

// usePostgres prepares connections to a PostgreSQL database.
func (s *database) usePostgres(address string) (err error) {
	if s.db, s.d, s.where, err = engine.OpenPostgres(address, tables(), s.wait); err != nil {
		return err
	}
	s.log, s.reads = s.db, s.db
	return nil
}
