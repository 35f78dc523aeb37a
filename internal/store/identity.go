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
)

// recipientFact is the name under which the database remembers which identity its secrets are for.
const recipientFact = "age-recipient"

// loadIdentity reads the identity that opens the secrets. It is made on first use, and never again once there are secrets.
func (s *database) loadIdentity(ctx context.Context) error {
	path := filepath.Join(s.dir, identityFile)
	id, err := readIdentity(path)
	known, factErr := s.recipient(ctx)
	if factErr != nil {
		return factErr
	}
	switch {
	case err == nil && known == id.Recipient().String():
		s.identity = id
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// First use; or the identity is missing or another one, which matters only if there are secrets.
	unlock, err := s.d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.settleIdentity(ctx, path)
}

// settleIdentity is called with the lock held.
func (s *database) settleIdentity(ctx context.Context, path string) error {
	id, err := readIdentity(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	known, err := s.recipient(ctx)
	if err != nil {
		return err
	}
	if known != "" && (missing || id.Recipient().String() != known) {
		if s.d.sql().shared { // somebody else's may be about to encrypt the first secret
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
		if id, err = makeIdentity(path); err != nil {
			return err
		}
	}
	_, err = s.exec(ctx, s.db,
		"INSERT INTO store_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		recipientFact, id.Recipient().String())
	s.identity = id
	return s.wrap(err, "remember the identity")
}

func wrongIdentity(path string, missing bool, known string) error {
	what := "the identity is not the one that the secrets in the store are encrypted for (%s)"
	if missing {
		what = "the identity is missing, and there are secrets in the store that only it can open (%s)"
	}
	return fail.New(fail.Unauthorized, what, known).At(path).
		Do("put the right file back from a backup; without it the secrets are lost, and the clusters can only be destroyed by hand")
}

// notTheirs says what somebody lacks who shares a store with others.
func (s *database) notTheirs(path string, missing bool, known string) error {
	what := "this identity is not the one of those who share the store (%s)"
	if missing {
		what = "the identity is missing that opens the secrets of this store (%s)"
	}
	e := fail.New(fail.Unauthorized, what, known).At(path)
	if missing {
		return e.Do("copy identity.age, mode 600, from the state directory of somebody who uses %s", s.where)
	}
	return e.Do("it is another store's: name a directory of its own by --state-dir, and copy identity.age, mode 600, there from somebody who uses %s", s.where)
}

// recipient returns the public half of the identity that the database remembers; empty if none.
func (s *database) recipient(ctx context.Context) (string, error) {
	v, err := one(ctx, s, s.db, value[string], "SELECT value FROM store_facts WHERE name = $1", recipientFact)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return v, s.wrap(err, "read the store")
}

// readIdentity reads an age identity. The error is fs.ErrNotExist if there is no such file; it never holds the file's text.
func readIdentity(path string) (*age.X25519Identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the store's identity").At(path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fail.New(fail.Refused, "the identity can be read by others (mode %04o)", info.Mode().Perm()).
			At(path).Do("chmod 600 %s", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the store's identity").At(path)
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if id, err := age.ParseX25519Identity(line); err == nil {
			return id, nil
		}
		break
	}
	return nil, fail.New(fail.Invalid, "this is not an age identity (AGE-SECRET-KEY-1…)").At(path).
		Do("put the right file back from a backup")
}

// makeIdentity writes a new identity, whole or not at all, and never over another.
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

// identityText is an identity as it lies in its file.
func identityText(id *age.X25519Identity) []byte {
	return []byte("# Opens the secrets in the store. Keep a copy in a safe place: without it they are lost.\n# public key: " +
		id.Recipient().String() + "\n" + id.String() + "\n")
}

// writeNew writes a file of mode 0600 that must not exist yet, whole or not at all, and waits for the disk.
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
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
