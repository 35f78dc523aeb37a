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
	if err == nil && known != is.id.Recipient().String() || errors.Is(err, fs.ErrNotExist) {
		if resumed, e := s.resumeRenewal(ctx, path, known); e != nil {
			return e
		} else if resumed {
			is, marked, err = s.readIdentity(path)
		}
	}
	switch {
	case err == nil && known == is.id.Recipient().String():
		s.use(is, marked)
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// First use; or the identity is missing or a different one, which matters only if there are secrets.
	unlock, err := s.d.lock(ctx)
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
	if known != "" && (missing || is.id.Recipient().String() != known) {
		if !missing {
			when, err := s.formerNote(ctx, is.id.Recipient().String())
			if err != nil {
				return err
			}
			if when != "" {
				return s.wasRenewed(path, when)
			}
		}
		if s.d.sql().shared { // another user may be about to encrypt the first secret
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
		if is.id, err = makeIdentity(path); err != nil {
			return err
		}
		marked = true
	}
	s.use(is, marked)
	err = s.change(ctx, s.db, twice, func(tx *sql.Tx) error {
		if missing { // the store has no rows yet
			if err := s.putFact(ctx, tx, authFact, s.authValue()); err != nil {
				return err
			}
		}
		return s.putFact(ctx, tx, recipientFact, is.id.Recipient().String())
	})
	return s.wrap(err, "remember the identity")
}

// use makes the identity of the file the current one.
func (s *database) use(is unlocked, marked bool) {
	s.setIdentity(is.id)
	s.protection, s.marked = is.by, marked
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

// readIdentity reads an age identity and its protection, and reports whether the file has authMark. The error is fs.ErrNotExist if the file does not
// exist; it never contains the file's text.
func (s *database) readIdentity(path string) (is unlocked, marked bool, err error) {
	text, err := readPrivate(path)
	if err != nil {
		return is, false, err
	}
	return parseIdentityFile(path, text, s.unlock)
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
	if err := writeNew(path, identityText(id)); err != nil {
		return fail.Wrap(fail.Refused, err, "write the store's identity").At(path)
	}
	return nil
}

// identityText returns the content of an unprotected identity's file.
func identityText(id *age.X25519Identity) []byte {
	return []byte("# Opens the secrets in the store. Keep a copy in a safe place: without it they are lost.\n# public key: " +
		id.Recipient().String() + "\n" + authMark + "\n" + id.String() + "\n")
}

// authMark is the line of an identity's file that records that every row of the store carries a MAC. It is in the file because a writer of the database
// cannot change it there. Copies of the file carry it to other hosts that share the store. After restoring an older database by hand, remove the line,
// and the next open adds MACs to the rows.
const authMark = "# The store's rows carry MACs: rows without one are refused."

// mark adds authMark to the identity's file.
func (s *database) mark(path string) error {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = rewrite(path, append([]byte(authMark+"\n"), raw...))
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "record in the identity's file that the store's rows carry MACs").At(path).
			Do("make the file writable, or add this line to it: %s", authMark)
	}
	s.marked = true
	return nil
}

// rewrite replaces a file of mode 0600 atomically and durably. It follows a link.
func rewrite(path string, data []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// writeNew atomically and durably writes a file of mode 0600 that must not exist yet.
func writeNew(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename, refuses to replace
		return err
	}
	return syncDir(filepath.Dir(path))
}
