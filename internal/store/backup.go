package store

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/archive"
)

// Facts in a copy of a store about its origin.
const (
	copiedFact = "copied-at" // RFC 3339
	movedFact  = "moved-to"  // this store is no longer in use: the location of its replacement
)

// Kept is one cluster that was backed up, restored or moved.
type Kept struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Changed time.Time `json:"changed"` // when its record was last written
}

// Backup writes an encrypted copy of the whole store, including the identity that decrypts its secrets, and returns the clusters in it. Other
// contents of the state directory (snapshots of etcd) are not included.
func Backup(ctx context.Context, at Location, w io.Writer, k archive.Key) ([]Kept, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	s, err := openWith(ctx, at, (*database).openExisting)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // it was only read from
	tmp, err := os.MkdirTemp(s.dir, ".backup-")
	if err != nil {
		return nil, refused(err, s.dir, "make a copy of the store")
	}
	defer os.RemoveAll(tmp)
	all, err := s.copyInto(ctx, tmp)
	if err != nil {
		return nil, err
	}
	return all, archive.Pack(w, tmp, archived(), k)
}

// archived returns the names of the files in a backup, which are those of a state directory: an unpacked backup is a store.
func archived() []string { return []string{DatabaseFile, identityFile} }

// openExisting opens a store that must exist.
func (s *database) openExisting(ctx context.Context, url string) error {
	there, err := s.exists(ctx, url)
	if err != nil {
		return err
	}
	if !there {
		return fail.New(fail.NotFound, "there is no store").At(s.where).Do("name the one you mean by --state-dir or --store")
	}
	return s.openOrMake(ctx, url)
}

// copyInto creates a state directory with a copy of the store and its identity.
func (s *database) copyInto(ctx context.Context, dir string) (all []Kept, err error) {
	c, err := openWith(ctx, Location{Dir: dir}, (*database).openBare)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	err = s.reading(ctx, func(from *sql.Tx) error {
		return c.change(ctx, c.db, once, func(to *sql.Tx) error {
			if err := c.fill(ctx, to, from); err != nil {
				return err
			}
			all, err = c.settle(ctx, to, copiedFact, time.Now().UTC().Format(time.RFC3339))
			return err
		})
	})
	if err != nil {
		return nil, s.wrap(err, "copy the store")
	}
	if _, err := c.db.ExecContext(ctx, "PRAGMA journal_mode=DELETE"); err != nil { // to get a single file
		return nil, c.wrap(err, "copy the store")
	}
	return all, writeIdentity(filepath.Join(dir, identityFile), s.identity)
}

// settle stores a fact about the store itself, and returns the store's clusters.
func (s *database) settle(ctx context.Context, tx *sql.Tx, fact, text string) ([]Kept, error) {
	_, err := tx.ExecContext(ctx, "INSERT INTO store_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", fact, text)
	if err != nil {
		return nil, err
	}
	return s.kept(ctx, tx)
}

// kept lists the clusters of a store.
func (s *database) kept(ctx context.Context, tx *sql.Tx) ([]Kept, error) {
	clusters, err := s.clusters(ctx, tx, unverified)
	if err != nil {
		return nil, err
	}
	all := make([]Kept, 0, len(clusters))
	for _, c := range clusters {
		all = append(all, Kept{c.Name, c.ID, c.UpdatedAt})
	}
	return all, nil
}
