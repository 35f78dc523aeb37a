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
	"github.com/naupegos/naupegos/internal/store/keyfile"
	"github.com/naupegos/naupegos/internal/store/process"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

const (
	nextSuffix      = ".next"             // file of an identity during its rotation
	formerPrefix    = "former-recipient/" // + recipient: the fact with the time of that identity's replacement
	formerIdentites = "former-identities" // server secret with the former identities, which decrypt older backups
)

// ErrRenewed is the cause of the error after a rotation of the store's identity by another process. The store must be opened again.
var ErrRenewed = errors.New("opened with the former identity")

// Rotated is the result of a rotation.
type Rotated struct {
	Recipient string `json:"recipient"` // the new public key
	Aside     string `json:"aside"`     // path of the former identity
	Clusters  int    `json:"clusters"`  // number of clusters with new keys
	Secrets   int    `json:"secrets"`   // number of re-encrypted secrets
}

// Rotate replaces the identity. One transaction gives each cluster a new key, re-encrypts each secret, and replaces each row's MAC after verifying the old
// one. Rotate writes the new identity's file next to the old one before the transaction and renames it afterwards; if it is killed, the next open
// finishes the rename. It refuses a store with held leases. Running servers stop when they notice the rotation.
func Rotate(ctx context.Context, at Location) (done *Rotated, err error) {
	s, err := openWith(ctx, at, (*database).openExisting)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	unlock, err := s.d.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.current(ctx, s.db); err != nil { // another process was faster
		return nil, err
	}
	path := filepath.Join(s.dir, identityFile)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "create an identity")
	}
	text, err := s.protection.Protect(id, rowmac.Marks())
	if err != nil {
		return nil, err
	}
	next := path + nextSuffix
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an unfinished rotation
		return nil, fail.Wrap(fail.Refused, err, "remove the file of an unfinished rotation").At(next)
	}
	if err := keyfile.WriteNew(next, text); err != nil {
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

// steps lets a test act at each step of a rotation.
type steps struct{ do func(step string) }

// reached reports a step of the rotation to a test.
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
		if do := s.d.SQL().Exclusive; do != "" {
			if _, err := tx.ExecContext(ctx, do); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "LOCK TABLE sessions IN EXCLUSIVE MODE"); err != nil { // copies of the store leave them out
				return err
			}
		}
		if err := s.unleased(ctx, tx); err != nil {
			return err
		}
		*done = Rotated{Recipient: done.Recipient}
		for _, t := range rowmac.Tables() {
			rows, err := s.macRows(ctx, tx, t)
			if err != nil {
				return err
			}
			for _, r := range rows {
				if !hmac.Equal([]byte(r.mac), []byte(s.mac(t, r.values...))) { // a new MAC would legitimize a forged row
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
		for _, t := range rowmac.Tables() {
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
			putAuthFacts(ctx, to, tx), s.putFact(ctx, tx, recipientFact, id.Recipient().String()))
	})
	return s.wrap(err, "rotate the store's identity")
}

// unleased returns fail.Conflict while any lease is held.
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
		if now.Before(l.info.Expires) && l.holder.Lives(s.self) != process.Dead {
			return held(l, s.self, now)
		}
	}
	return nil
}

// renewClusters gives each cluster a new key, and re-encrypts its secrets.
func (s *database) renewClusters(ctx context.Context, tx *sql.Tx, to *database, done *Rotated) error {
	keys, err := s.macRows(ctx, tx, rowmac.ClusterKeys)
	if err != nil {
		return err
	}
	secretRows, err := s.macRows(ctx, tx, rowmac.Secrets)
	if err != nil {
		return err
	}
	old, fresh := map[string][]byte{}, map[string][]byte{}
	for _, r := range keys {
		cluster := r.values[0]
		if old[cluster], err = s.unwrapKey(r.values[1]); err != nil {
			return fail.Wrap(fail.Internal, err, "the key of the cluster's secrets is damaged: it does not decrypt").At(cluster).Do("restore a backup: naupegos store restore")
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
			return fail.Wrap(fail.Internal, err, "the secret %s is damaged: it does not decrypt", name).At(x.cluster).Do("restore a backup: naupegos store restore")
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
	rows, err := s.macRows(ctx, tx, rowmac.ServerSecrets)
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

// finishRenewal renames the new identity's file, after the store's transaction.
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
		err = keyfile.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return "", fail.Wrap(fail.Refused, err, "rename the new identity's file").At(path).Do("the next command finishes the rotation; do not remove %s", path+nextSuffix)
	}
	return aside, nil
}

// resumeRenewal finishes a rotation that was killed after its transaction, and reports whether it did. known is the store's recipient.
func (s *database) resumeRenewal(ctx context.Context, path, known string) (bool, error) {
	if known == "" {
		return false, nil
	}
	raw, err := keyfile.ReadPrivate(path + nextSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !strings.Contains(string(raw), "\n# public key: "+known+"\n") {
		return false, nil
	}
	unlock, err := s.d.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if _, err := os.Stat(path + nextSuffix); errors.Is(err, fs.ErrNotExist) { // another process was faster
		return true, nil
	}
	_, err = s.finishRenewal(path, Location{})
	return err == nil, err
}

// formerNote returns the time of an identity's replacement, or "" if it is not a former identity of the store.
func (s *database) formerNote(ctx context.Context, recipient string) (string, error) {
	at, err := one(ctx, s, s.db, value[string], "SELECT value FROM store_facts WHERE name = $1", formerPrefix+recipient)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return at, s.wrap(err, "read the store")
}

// loadFormer reads the store's former identities.
func (s *database) loadFormer(ctx context.Context) error {
	raw, err := s.ServerSecrets().Get(ctx, formerIdentites)
	if fail.KindOf(err) == fail.NotFound {
		return nil
	}
	s.former = raw
	return err
}

// Protect encrypts the identity's file with a passphrase or an age plugin, or removes the encryption. The identity itself stays the same.
func Protect(ctx context.Context, at Location, by Protection) (err error) {
	s, err := openWith(ctx, at, (*database).openExisting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	unlock, err := s.d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	text, err := by.Protect(s.identity, rowmac.Marks())
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, identityFile)
	if keyfile.Protected(text) { // verify that it can be opened before replacing the old file
		check := &Unlock{Passphrase: func() (string, error) { return by.Passphrase, nil }}
		if at.Unlock != nil {
			check.Ask, check.Tell = at.Unlock.Ask, at.Unlock.Tell
		}
		if is, err := check.Opened(path, text); err != nil || is.ID.String() != s.identity.String() {
			return errors.Join(err, fail.New(fail.Refused, "the passphrase or plugin does not open the identity again").At(path))
		}
	}
	if err := keyfile.Rewrite(path, text); err != nil {
		return fail.Wrap(fail.Refused, err, "write the store's identity").At(path)
	}
	if !keyfile.Protected(text) {
		return nil
	}
	return protectFormer(path, by)
}

// protectFormer encrypts the files of former identities, which open older backups.
func protectFormer(path string, by Protection) error {
	all, err := filepath.Glob(path + ".before-*")
	if err != nil {
		return fail.Wrap(fail.Internal, err, "find the former identities").At(path)
	}
	for _, former := range all {
		raw, err := keyfile.ReadPrivate(former)
		if err != nil {
			return err
		}
		if keyfile.Protected(raw) {
			continue
		}
		is, err := (&Unlock{}).Opened(former, raw)
		if err != nil {
			return err
		}
		text, err := by.Protect(is.ID, rowmac.Marks())
		if err == nil {
			err = keyfile.Rewrite(former, text)
		}
		if err != nil {
			return fail.Wrap(fail.Refused, err, "encrypt a former identity").At(former)
		}
	}
	return nil
}
