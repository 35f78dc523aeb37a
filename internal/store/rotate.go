package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	nextSuffix      = ".next"             // of the file of an identity that a renewal is about to take into use
	formerPrefix    = "former-recipient/" // + recipient: the store's fact when that identity was replaced
	formerIdentites = "former-identities" // among the server's secrets: they open backups of before
)

// ErrRenewed is the cause of an error that says that the store's identity was renewed since this process opened the store: it has to open it again.
var ErrRenewed = errors.New("opened with the former identity")

// Rotated says what a renewal of the identity did.
type Rotated struct {
	Recipient string `json:"recipient"` // the new public key
	Aside     string `json:"aside"`     // where the former identity is
	Clusters  int    `json:"clusters"`  // whose keys are new
	Secrets   int    `json:"secrets"`   // encrypted again
}

// Rotate renews the identity, in one transaction: each cluster gets a new key, each secret is encrypted again, and each row's MAC is made by the new
// identity, after the old one verified it. The new identity lies beside the old one before, and takes its place after: whoever opens the store finishes
// what a killed process left. Nobody may be at work on a cluster; servers go on, notice, and end.
func Rotate(ctx context.Context, at Location) (done *Rotated, err error) {
	s, err := openWith(ctx, at, (*database).openExisting)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	unlock, err := s.d.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.current(ctx, s.db); err != nil { // somebody else was quicker
		return nil, err
	}
	path := filepath.Join(s.dir, identityFile)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make an identity")
	}
	text, err := s.protection.protect(id)
	if err != nil {
		return nil, err
	}
	next := path + nextSuffix
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a renewal that never came to its end
		return nil, fail.Wrap(fail.Refused, err, "remove what is left of a renewal").At(next)
	}
	if err := writeNew(next, text); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "write the new identity").At(next)
	}
	at.reached("written")
	done = &Rotated{Recipient: id.Recipient().String()}
	if err := s.renew(ctx, id, done); err != nil {
		return nil, err
	}
	at.reached("committed")
	done.Aside, err = s.finishRenewal(path, at)
	return done, err
}

// steps is what a test does at each step of a renewal.
type steps struct{ do func(step string) }

// reached tells a test how far a renewal is.
func (l Location) reached(step string) {
	if l.steps != nil {
		l.steps.do(step)
	}
}

// renew re-encrypts everything to a new identity.
func (s *database) renew(ctx context.Context, id *age.X25519Identity, done *Rotated) error {
	to := &database{d: s.d}
	to.setIdentity(id)
	err := s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		if do := s.d.sql().exclusive; do != "" {
			if _, err := tx.ExecContext(ctx, do); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "LOCK TABLE sessions IN EXCLUSIVE MODE"); err != nil { // no copy has them
				return err
			}
		}
		if err := s.unleased(ctx, tx); err != nil {
			return err
		}
		*done = Rotated{Recipient: done.Recipient}
		for _, t := range macTables() {
			rows, err := s.macRows(ctx, tx, t)
			if err != nil {
				return err
			}
			for _, r := range rows {
				if !hmac.Equal([]byte(r.mac), []byte(s.mac(t, r.values...))) { // a new MAC would make it a good row
					return notAuthentic(t, r.mac, r.values)
				}
			}
		}
		if err := s.renewClusters(ctx, tx, to, done); err != nil {
			return err
		}
		if err := s.renewServerSecrets(ctx, tx, to, done); err != nil {
			return err
		}
		for _, t := range macTables() {
			rows, err := s.macRows(ctx, tx, t)
			if err != nil {
				return err
			}
			for _, r := range rows {
				if err := to.putMAC(ctx, tx, t, r.values); err != nil {
					return err
				}
			}
		}
		return errors.Join(s.putFact(ctx, tx, formerPrefix+s.identity.Recipient().String(), time.Now().UTC().Format(time.RFC3339)),
			s.putFact(ctx, tx, authFact, to.authValue()), s.putFact(ctx, tx, recipientFact, id.Recipient().String()))
	})
	return s.wrap(err, "renew the store's identity")
}

// unleased is fail.Conflict while somebody works on a cluster.
func (s *database) unleased(ctx context.Context, tx *sql.Tx) error {
	now, err := s.now(ctx, tx)
	if err != nil {
		return err
	}
	found, err := list(ctx, s, tx, scanLease, selectLease+" WHERE l.held = 1")
	if err != nil {
		return err
	}
	for _, l := range found {
		if now.Before(l.info.Expires) && l.holder.lives(s.self) != dead {
			return held(l, s.self, now)
		}
	}
	return nil
}

// renewClusters gives each cluster a new key, and encrypts its secrets by it.
func (s *database) renewClusters(ctx context.Context, tx *sql.Tx, to *database, done *Rotated) error {
	keys, err := s.macRows(ctx, tx, macClusterKeys)
	if err != nil {
		return err
	}
	secretRows, err := s.macRows(ctx, tx, macSecrets)
	if err != nil {
		return err
	}
	old, fresh := map[string][]byte{}, map[string][]byte{}
	for _, r := range keys {
		cluster := r.values[0]
		if old[cluster], err = s.unwrapKey(r.values[1]); err != nil {
			return fail.New(fail.Internal, "the key of the cluster's secrets is damaged: it does not decrypt").At(cluster).Do("put back a backup: naupegos store restore")
		}
		key := make([]byte, chacha20poly1305.KeySize)
		_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
		wrapped, err := to.sealTo(key)
		if err != nil {
			return fail.Wrap(fail.Internal, err, "encrypt a new key").At(cluster)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE cluster_keys SET wrapped = $1 WHERE cluster_id = $2", wrapped, cluster); err != nil {
			return err
		}
		fresh[cluster] = key
		done.Clusters++
	}
	for _, r := range secretRows {
		x := &secrets{s, r.values[0]}
		name := r.values[1]
		raw, err := base64.StdEncoding.DecodeString(r.values[2])
		if err == nil {
			raw, err = unseal(old[x.cluster], raw, x.bind(name))
		}
		if err != nil {
			return fail.New(fail.Internal, "the secret %s is damaged: it does not decrypt", name).At(x.cluster).Do("put back a backup: naupegos store restore")
		}
		sealed, err := seal(fresh[x.cluster], raw, x.bind(name))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE secrets SET sealed = $1 WHERE cluster_id = $2 AND name = $3",
			base64.StdEncoding.EncodeToString(sealed), x.cluster, name); err != nil {
			return err
		}
		done.Secrets++
	}
	return nil
}

// renewServerSecrets encrypts the server's secrets to the new identity, the former identity among them.
func (s *database) renewServerSecrets(ctx context.Context, tx *sql.Tx, to *database, done *Rotated) error {
	rows, err := s.macRows(ctx, tx, macServerSecrets)
	if err != nil {
		return err
	}
	x, former := serverSecrets{s}, s.identity.String()+"\n"
	for _, r := range rows {
		name := r.values[0]
		plain, err := x.open(name, r.values[1])
		if err != nil {
			return err
		}
		if name == formerIdentites {
			former += string(plain)
			continue
		}
		sealed, err := to.sealTo(append(x.bind(name), plain...))
		if err != nil {
			return fail.Wrap(fail.Internal, err, "encrypt the server's secret %s", name)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE server_secrets SET sealed = $1 WHERE name = $2", sealed, name); err != nil {
			return err
		}
		done.Secrets++
	}
	sealed, err := to.sealTo(append(x.bind(formerIdentites), former...))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "encrypt the former identity")
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO server_secrets (name, sealed, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at`, formerIdentites, sealed, micros(time.Now()))
	return err
}

// finishRenewal puts the new identity, which the store has by now, into the place of the former one.
func (s *database) finishRenewal(path string, at Location) (aside string, err error) {
	aside = path + ".before-" + time.Now().UTC().Format("20060102-150405.000")
	if err = os.Link(path, aside); errors.Is(err, fs.ErrNotExist) {
		aside, err = "", nil
	}
	if err == nil {
		at.reached("aside")
		err = os.Rename(path+nextSuffix, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return "", fail.Wrap(fail.Refused, err, "put the new identity into its place").At(path).Do("the next command finishes it; do not remove %s", path+nextSuffix)
	}
	return aside, nil
}

// resumeRenewal finishes a renewal that was killed after the store had the new identity: known is what the store has. It reports whether it did.
func (s *database) resumeRenewal(ctx context.Context, path, known string) (bool, error) {
	if known == "" {
		return false, nil
	}
	raw, err := readPrivate(path + nextSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !strings.Contains(string(raw), "\n# public key: "+known+"\n") {
		return false, nil
	}
	unlock, err := s.d.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if _, err := os.Stat(path + nextSuffix); errors.Is(err, fs.ErrNotExist) { // somebody else was quicker
		return true, nil
	}
	_, err = s.finishRenewal(path, Location{})
	return err == nil, err
}

// formerNote says when an identity was replaced; empty: it never was the store's.
func (s *database) formerNote(ctx context.Context, recipient string) (string, error) {
	at, err := one(ctx, s, s.db, value[string], "SELECT value FROM store_facts WHERE name = $1", formerPrefix+recipient)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return at, s.wrap(err, "read the store")
}

// loadFormer reads the identities that were the store's once.
func (s *database) loadFormer(ctx context.Context) error {
	raw, err := s.ServerSecrets().Get(ctx, formerIdentites)
	if fail.KindOf(err) == fail.NotFound {
		return nil
	}
	s.former = raw
	return err
}

// Protect encrypts the identity's file by a passphrase or a plugin of age, or no more, and leaves the identity itself as it is.
func Protect(ctx context.Context, at Location, by Protection) (err error) {
	s, err := openWith(ctx, at, (*database).openExisting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	unlock, err := s.d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	text, err := by.protect(s.identity)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, identityFile)
	if protected(text) { // before the old file goes: what it is protected by has to open it
		check := &Unlock{Passphrase: func() (string, error) { return by.Passphrase, nil }}
		if at.Unlock != nil {
			check.Ask, check.Tell = at.Unlock.Ask, at.Unlock.Tell
		}
		if is, err := check.opened(path, text); err != nil || is.id.String() != s.identity.String() {
			return errors.Join(err, fail.New(fail.Refused, "what is to protect the identity does not open it again").At(path))
		}
	}
	if err := rewrite(path, text); err != nil {
		return fail.Wrap(fail.Refused, err, "write the store's identity").At(path)
	}
	return nil
}
