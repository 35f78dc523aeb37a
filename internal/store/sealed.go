package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// Seal returns a writer that encrypts to w for holders of the store's identity (age-encryption.org/v1). It is for data that is kept beside the store.
// Close completes the data and does not close w.
func Seal(st Store, w io.Writer) (io.WriteCloser, error) {
	to, err := age.ParseX25519Recipient(st.Recipient())
	if err != nil {
		return nil, fail.New(fail.Internal, "the store's identity can't be encrypted to") // cause withheld: it may quote a secret
	}
	out, err := age.Encrypt(w, to)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "encrypt for the store's identity")
	}
	return out, nil
}

// Unseal returns a reader that decrypts the output of Seal with the identity of a store.
func Unseal(st Store, r io.Reader) (io.Reader, error) {
	with, err := age.ParseIdentities(bytes.NewReader(st.Identity()))
	if err != nil { // the cause may contain a part of it
		return nil, fail.New(fail.Internal, "the store's identity can't be read") // cause withheld: it may quote a secret
	}
	out, err := age.Decrypt(r, with...)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "decrypt with the store's identity").Do("the file is damaged, or another store's")
	}
	return out, nil
}

// serverSecrets implements Secrets for secrets that belong to no cluster. They are few and small: each is encrypted to the identity itself.
type serverSecrets struct{ s *database }

// ServerSecrets implements Store.
func (s *database) ServerSecrets() Secrets { return serverSecrets{s} }

// Get implements Secrets.
func (x serverSecrets) Get(ctx context.Context, name string) ([]byte, error) {
	row, err := one(ctx, x.s, x.s.reads, scanSigned, "SELECT sealed, mac FROM server_secrets WHERE name = $1", name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fail.New(fail.NotFound, "the server has no secret %s", name)
	}
	if err != nil {
		return nil, x.s.wrap(err, "read the server's secret %s", name)
	}
	if err := x.s.verify(ctx, rowmac.ServerSecrets, row.mac, name, row.text); err != nil {
		return nil, err
	}
	return x.open(name, row.text)
}

// open decrypts a secret.
func (x serverSecrets) open(name, sealed string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err == nil {
		var r io.Reader
		if r, err = age.Decrypt(bytes.NewReader(raw), x.s.identity); err == nil {
			raw, err = io.ReadAll(r)
		}
	}
	if err == nil {
		if whole, ok := bytes.CutPrefix(raw, x.bind(name)); ok {
			return whole, nil
		}
	}
	return nil, fail.New(fail.Internal, "the server's secret %s is damaged: it does not decrypt", name).Do("put back a backup: naupegos store restore")
}

// Put implements Secrets.
func (x serverSecrets) Put(ctx context.Context, name string, value []byte) error {
	return x.insert(ctx, name, value, "DO UPDATE SET sealed = excluded.sealed, mac = excluded.mac, updated_at = excluded.updated_at")
}

// PutIfAbsent implements Secrets.
func (x serverSecrets) PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := x.insert(ctx, name, value, "DO NOTHING"); err != nil {
		return nil, err
	}
	return x.Get(ctx, name)
}

func (x serverSecrets) insert(ctx context.Context, name string, value []byte, onConflict string) error {
	if name == "" {
		return fail.New(fail.Invalid, "a secret needs a name")
	}
	sealed, err := x.s.sealTo(append(x.bind(name), value...))
	if err != nil {
		return fail.Wrap(fail.Internal, err, "encrypt the server's secret %s", name)
	}
	err = x.s.changeSigned(ctx, twice, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO server_secrets (name, sealed, mac, updated_at) VALUES ($1, $2, $3, $4) ON CONFLICT (name) "+onConflict, //nolint:gosec // one of two constants
			name, sealed, x.s.mac(rowmac.ServerSecrets, name, sealed), micros(time.Now()))
		return err
	})
	return x.s.wrap(err, "store the server's secret %s", name)
}

// Delete implements Secrets.
func (x serverSecrets) Delete(ctx context.Context, name string) error {
	_, err := x.s.exec(ctx, x.s.db, "DELETE FROM server_secrets WHERE name = $1", name)
	return x.s.wrap(err, "forget the server's secret %s", name)
}

// Names implements Secrets.
func (x serverSecrets) Names(ctx context.Context) ([]string, error) {
	names, err := list(ctx, x.s, x.s.reads, value[string], "SELECT name FROM server_secrets")
	slices.Sort(names)
	return names, x.s.wrap(err, "list the server's secrets")
}

// bind returns the prefix of a sealed value, which ensures that it opens under no other name.
func (x serverSecrets) bind(name string) []byte {
	return []byte("naupegos server secret\x00" + name + "\x00")
}
