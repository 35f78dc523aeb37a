package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/engine"
	"github.com/naupegos/naupegos/internal/store/schema"
	"github.com/naupegos/naupegos/internal/userdir"
)

// View opens a store like Open, except that it creates none: an empty one in memory stands in for a missing store, and what is written
// there is gone with Close. Dir and Where are the same all the same.
func View(ctx context.Context, at Location) (Store, error) {
	s, err := openWith(ctx, at, (*database).openOrImagine)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *database) openOrImagine(ctx context.Context, url string) error {
	there, err := s.exists(ctx, url)
	if err != nil {
		return err
	}
	if there {
		return s.openOrMake(ctx, url)
	}
	s.d = engine.NewSQLite(filepath.Join(s.dir, DatabaseFile), filepath.Join(s.dir, lockFile), s.wait)
	if s.db, err = engine.OpenSQLite(engine.InMemory, "OFF"); err != nil {
		return err
	}
	s.log, s.reads = s.db, s.db
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return fail.Wrap(fail.Internal, err, "make an identity")
	}
	s.setIdentity(id)
	if err := s.up(ctx, 0, schema.Version); err != nil {
		return err
	}
	return s.change(ctx, s.db, twice, func(tx *sql.Tx) error { return s.putFact(ctx, tx, recipientFact, id.Recipient().String()) })
}

// exists reports whether there is a store, and makes nothing.
func (s *database) exists(ctx context.Context, url string) (bool, error) {
	if url == "" {
		path := filepath.Join(s.dir, DatabaseFile)
		_, err := os.Stat(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, refused(err, path, "open the store")
		}
		return err == nil, nil
	}
	look := &database{dir: s.dir}
	err := look.usePostgres(url)
	s.where = look.where
	var have int
	if err == nil {
		have, err = look.version(ctx)
	}
	return have > 0, errors.Join(err, look.Close())
}

// refused says what helps where path can't be used: most often it is another user's.
func refused(err error, path, what string) error {
	e := fail.Wrap(fail.Refused, err, "%s", what).At(path)
	owner, known := userdir.OtherOwner(path)
	switch {
	case !known || !errors.Is(err, fs.ErrPermission):
		return e.Do("make it a directory that you may write, or name another directory by --state-dir or XDG_STATE_HOME")
	case owner == "root":
		return e.Do("it belongs to root: run the command with sudo -E")
	}
	return e.Do("it belongs to %s: run the command as that user, or name another directory by --state-dir or XDG_STATE_HOME", owner)
}
