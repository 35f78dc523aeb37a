package store

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/archive"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// FactRestored is the kind of the fact that marks a cluster whose record came from a backup. Its value is the time of the backup (RFC 3339); later
// changes are unknown. The fact stays until the cluster is brought to its document again.
const FactRestored = "restored-from"

// Restored describes a completed restore.
type Restored struct {
	Made     time.Time `json:"made"` // when the backup was made
	Clusters []Kept    `json:"clusters"`
	// Newer are clusters about which the replaced store knew more than the backup, or which are missing from the backup.
	Newer []Kept `json:"newer,omitempty"`
	// Aside is the present path of the identity that the restored one replaced; empty if there was none, or the same.
	Aside string `json:"aside,omitempty"`
}

// Restore replaces the contents of a store by those of a backup. The store must have no clusters, unless replace permits to overwrite them. No
// process may be working on one of its clusters, and no server may run on the store. Jobs in the backup are not resumed, tokens that have been
// revoked since stay revoked, and sessions end.
func Restore(ctx context.Context, at Location, r io.Reader, k archive.Key, replace bool) (done *Restored, err error) {
	s, err := openWith(ctx, at, (*database).openBare)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tmp, err := os.MkdirTemp(s.dir, ".restore-")
	if err != nil {
		return nil, refused(err, s.dir, "unpack the backup")
	}
	defer os.RemoveAll(tmp)
	if err := archive.Unpack(r, tmp, archived(), k); err != nil {
		return nil, err
	}
	from, err := openWith(ctx, Location{Dir: tmp}, (*database).openOrMake)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := from.whole(ctx); err != nil {
		return nil, err
	}
	if done, err = s.takeOver(ctx, from, replace); err != nil {
		return nil, s.wrap(err, "restore the store")
	}
	done.Aside, err = s.putIdentity(filepath.Join(s.dir, identityFile), from.identity)
	return done, err
}

// whole verifies every row that carries a MAC, and decrypts every secret.
func (s *database) whole(ctx context.Context) error {
	all, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := allOpen(ctx, s.Secrets(c.ID)); err != nil {
			return err
		}
	}
	if _, err := s.Tokens(ctx); err != nil {
		return err
	}
	if _, err := s.Jobs(ctx, "", math.MaxInt32); err != nil {
		return err
	}
	return allOpen(ctx, s.ServerSecrets())
}

func allOpen(ctx context.Context, x Secrets) error {
	names, err := x.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := x.Get(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// takeOver replaces the contents of s by those of from.
func (s *database) takeOver(ctx context.Context, from *database, replace bool) (done *Restored, err error) {
	done = &Restored{}
	err = from.reading(ctx, func(old *sql.Tx) error {
		text, err := one(ctx, from, old, value[string], "SELECT value FROM store_facts WHERE name = $1", copiedFact)
		if err != nil {
			return err
		}
		if done.Made, err = time.Parse(time.RFC3339, text); err != nil {
			return err
		}
		return s.change(ctx, s.db, once, func(tx *sql.Tx) error {
			before, err := s.clear(ctx, tx, replace)
			if err != nil {
				return err
			}
			revoked, err := revokedTokens(ctx, s, tx)
			if err != nil {
				return err
			}
			if err := errors.Join(s.fill(ctx, tx, old), from.revokeAgain(ctx, tx, revoked), endJobs(ctx, from, tx)); err != nil {
				return err
			}
			if done.Clusters, err = s.kept(ctx, tx); err != nil {
				return err
			}
			done.Newer = newer(before, done.Clusters)
			return markRestored(ctx, from, tx, text)
		})
	})
	return done, err
}

// clear checks that everything in s may be overwritten, and returns the clusters in it.
func (s *database) clear(ctx context.Context, tx *sql.Tx, replace bool) ([]Kept, error) {
	if do := s.d.SQL().Exclusive; do != "" {
		if _, err := tx.ExecContext(ctx, do); err != nil {
			return nil, err
		}
	}
	moved, err := s.movedTo(ctx, tx)
	if err != nil {
		return nil, err
	}
	if moved == "" && !replace { // a store that was moved away lives elsewhere
		if err := s.vacant(ctx, tx); err != nil {
			return nil, err
		}
	}
	if err := s.still(ctx, tx); err != nil {
		return nil, err
	}
	return s.kept(ctx, tx)
}

// newer returns the previous records of clusters that are now older or missing.
func newer(before, now []Kept) (lost []Kept) {
	at := map[string]time.Time{}
	for _, c := range now {
		at[c.ID] = c.Changed
	}
	for _, c := range before {
		if known, ok := at[c.ID]; !ok || known.Before(c.Changed) {
			lost = append(lost, c)
		}
	}
	return lost
}

// markRestored stores the time of the backup, which is s, with each cluster.
func markRestored(ctx context.Context, s *database, tx *sql.Tx, made string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM facts WHERE kind = $1", FactRestored)
	if err != nil {
		return err
	}
	ids, err := list(ctx, s, tx, value[string], "SELECT id FROM clusters")
	for i := 0; i < len(ids) && err == nil; i++ {
		err = run(ctx, tx, "INSERT INTO facts (cluster_id, kind, subject, value, mac) VALUES ($1, $2, '', $3, $4)", ids[i], FactRestored, made, s.mac(rowmac.Facts, ids[i], FactRestored, "", made))
	}
	return err
}

// putIdentity makes an identity that of a store. A different one that is there is kept beside it.
func (s *database) putIdentity(path string, id *age.X25519Identity) (aside string, err error) {
	old, _, err := s.readIdentity(path)
	if err == nil && old.ID.String() == id.String() {
		return "", nil
	}
	if _, missing := os.Stat(path); missing == nil {
		aside = path + ".before-" + time.Now().UTC().Format("20060102-150405.000")
		if err := os.Rename(path, aside); err != nil {
			return "", fail.Wrap(fail.Refused, err, "keep the identity that is there").At(path)
		}
	}
	return aside, writeIdentity(path, id)
}
