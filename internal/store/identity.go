package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/keyfile"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// recipientFact is the database's record of the identity for its secrets.
const recipientFact = "age-recipient"

// loadIdentity reads the identity that decrypts the secrets. It is created on first use, and never again once there are secrets.
func (s *database) loadIdentity(ctx context.Context) error {
	path := filepath.Join(s.dir, identityFile)
	known, err := s.recipient(ctx)
	if err != nil {
		return err
	}
	is, marked, err := s.readIdentity(path)
	if err == nil && known != is.ID.Recipient().String() || errors.Is(err, fs.ErrNotExist) {
		if resumed, e := s.resumeRenewal(ctx, path, known); e != nil {
			return e
		} else if resumed {
			is, marked, err = s.readIdentity(path)
		}
	}
	switch {
	case err == nil && known == is.ID.Recipient().String():
		s.use(is, marked)
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// First use; or the identity is missing or a different one, which matters only if there are secrets.
	unlock, err := s.d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.settleIdentity(ctx, path)
}

// settleIdentity requires that the lock is held.
func (s *database) settleIdentity(ctx context.Context, path string) error {
	is, marked, err := s.readIdentity(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	known, err := s.recipient(ctx)
	if err != nil {
		return err
	}
	if known != "" && (missing || is.ID.Recipient().String() != known) {
		if !missing {
			when, err := s.formerNote(ctx, is.ID.Recipient().String())
			if err != nil {
				return err
			}
			if when != "" {
				return s.wasRenewed(path, when)
			}
		}
		if s.d.SQL().Shared { // another user may be about to encrypt the first secret
			return s.notTheirs(path, missing, known)
		}
		secrets, err := one(ctx, s, s.db, value[int], "SELECT (SELECT COUNT(*) FROM cluster_keys) + (SELECT COUNT(*) FROM server_secrets)")
		if err != nil {
			return s.wrap(err, "look for secrets")
		}
		if secrets > 0 {
			return wrongIdentity(path, missing, known)
		}
	}
	if missing {
		if is.ID, err = makeIdentity(path); err != nil {
			return err
		}
		marked = strings.Split(rowmac.Marks(), "\n")
	}
	s.use(is, marked)
	err = s.change(ctx, s.db, twice, func(tx *sql.Tx) error {
		if missing { // the store has no rows yet
			if err := putAuthFacts(ctx, s, tx); err != nil {
				return err
			}
		}
		return s.putFact(ctx, tx, recipientFact, is.ID.Recipient().String())
	})
	return s.wrap(err, "remember the identity")
}

// use makes the identity of the file the current one.
func (s *database) use(is keyfile.Identity, marked []string) {
	s.setIdentity(is.ID)
	s.protection, s.marked = is.By, marked
}

// wasRenewed returns the error for a former identity of the store.
func (s *database) wasRenewed(path, when string) error {
	return fail.New(fail.Unauthorized, "the store's identity was rotated at %s, and this is a former one", when).At(path).
		Do("replace this file by the new identity.age (mode 600) from the state directory where naupegos store rotate ran")
}

func wrongIdentity(path string, missing bool, known string) error {
	what := "the identity is not the one that the secrets in the store are encrypted for (%s)"
	if missing {
		what = "the identity is missing, and there are secrets in the store that only it can open (%s)"
	}
	return fail.New(fail.Unauthorized, what, known).At(path).
		Do("put the right file back from a backup; without it the secrets are lost, and the clusters can only be destroyed by hand")
}

// notTheirs returns the error for a user who shares a store but lacks its identity.
func (s *database) notTheirs(path string, missing bool, known string) error {
	what := "this identity is not the one of those who share the store (%s)"
	if missing {
		what = "the identity is missing that opens the secrets of this store (%s)"
	}
	e := fail.New(fail.Unauthorized, what, known).At(path)
	if missing {
		return e.Do("copy identity.age, mode 600, from the state directory of a user of %s", s.where)
	}
	return e.Do("it is another store's: name a separate directory by --state-dir, and copy identity.age, mode 600, there from a user of %s", s.where)
}

// recipient returns the recipient recorded in the database; empty if none.
func (s *database) recipient(ctx context.Context) (string, error) {
	v, err := one(ctx, s, s.db, value[string], "SELECT value FROM store_facts WHERE name = $1", recipientFact)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return v, s.wrap(err, "read the store")
}

// readIdentity reads an age identity and its protection, and returns the marks of the file; see rowmac.Set. The error is fs.ErrNotExist if the file does not
// exist; it never contains the file's text.
func (s *database) readIdentity(path string) (is keyfile.Identity, marked []string, err error) {
	text, err := keyfile.ReadPrivate(path)
	if err != nil {
		return is, nil, err
	}
	return keyfile.Parse(path, text, s.unlock)
}

// makeIdentity writes a new identity atomically, and never over another one.
func makeIdentity(path string) (*age.X25519Identity, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make an identity")
	}
	return id, writeIdentity(path, id)
}

// writeIdentity writes an identity to a file that must not exist yet.
func writeIdentity(path string, id *age.X25519Identity) error {
	if err := keyfile.WriteNew(path, keyfile.Text(id, rowmac.Marks())); err != nil {
		return fail.Wrap(fail.Refused, err, "write the store's identity").At(path)
	}
	return nil
}

// mark adds the mark of a set to the identity's file.
func (s *database) mark(path, mark string) error {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = keyfile.Rewrite(path, append([]byte(mark+"\n"), raw...))
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "record in the identity's file that the store's rows carry MACs").At(path).
			Do("make the file writable, or add this line to it: %s", mark)
	}
	s.marked = append(s.marked, mark)
	return nil
}
