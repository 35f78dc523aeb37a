package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Secrets are the named secrets of one cluster, encrypted on the disk.
type Secrets struct {
	s       *Store
	cluster string
}

// Secrets returns the secrets of the cluster with this ID.
func (s *Store) Secrets(clusterID string) *Secrets { return &Secrets{s, clusterID} }

// Get returns the value of a secret: fail.NotFound if there is none of this name.
func (x *Secrets) Get(ctx context.Context, name string) ([]byte, error) {
	var sealed string
	err := x.s.db.QueryRowContext(ctx, "SELECT sealed FROM secrets WHERE cluster_id = ? AND name = ?", x.cluster, name).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fail.New(fail.NotFound, "there is no secret %s", name).At(x.cluster)
	}
	if err != nil {
		return nil, x.s.wrap(err, "read the secret %s", name)
	}
	key, err := x.s.dataKey(ctx, x.cluster, false)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err == nil {
		raw, err = unseal(key, raw, x.bind(name))
	}
	if err != nil {
		return nil, fail.New(fail.Internal, "the secret %s is damaged: it does not decrypt", name).At(x.cluster).
			Do("put back a copy of %s together with %s", dbFile, identityFile)
	}
	return raw, nil
}

// Put stores a secret, in place of an older value.
func (x *Secrets) Put(ctx context.Context, name string, value []byte) error {
	return x.insert(ctx, name, value, "DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at")
}

// PutIfAbsent stores a secret unless there is one of this name, and returns what is stored then: of several who try at
// once, all get the winner's value.
func (x *Secrets) PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := x.insert(ctx, name, value, "DO NOTHING"); err != nil {
		return nil, err
	}
	return x.Get(ctx, name)
}

func (x *Secrets) insert(ctx context.Context, name string, value []byte, onConflict string) error {
	if name == "" {
		return fail.New(fail.Invalid, "a secret needs a name").At(x.cluster)
	}
	key, err := x.s.dataKey(ctx, x.cluster, true)
	if err != nil {
		return err
	}
	raw, err := seal(key, value, x.bind(name))
	if err != nil {
		return err
	}
	err = x.s.fenced(ctx, x.cluster, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			"INSERT INTO secrets (cluster_id, name, sealed, updated_at) VALUES (?, ?, ?, ?) ON CONFLICT (cluster_id, name) "+onConflict, //nolint:gosec // one of two constants
			x.cluster, name, base64.StdEncoding.EncodeToString(raw), micros(time.Now()))
		return err
	})
	if isForeignKey(err) {
		return x.s.unknownCluster(ctx, x.cluster)
	}
	return x.s.wrap(err, "store the secret %s", name)
}

// Delete forgets a secret. One that isn't there is no error.
func (x *Secrets) Delete(ctx context.Context, name string) error {
	err := x.s.fenced(ctx, x.cluster, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM secrets WHERE cluster_id = ? AND name = ?", x.cluster, name)
		return err
	})
	return x.s.wrap(err, "forget the secret %s", name)
}

// Names returns the names of all secrets of the cluster, sorted.
func (x *Secrets) Names(ctx context.Context) ([]string, error) {
	rows, err := x.s.db.QueryContext(ctx, "SELECT name FROM secrets WHERE cluster_id = ? ORDER BY name", x.cluster)
	if err != nil {
		return nil, x.s.wrap(err, "list the secrets")
	}
	names, err := collect(rows, func(r interface{ Scan(...any) error }) (*string, error) {
		var name string
		return &name, r.Scan(&name)
	})
	return names, x.s.wrap(err, "list the secrets")
}

// bind is what a sealed value is bound to, so that it opens in no other place.
func (x *Secrets) bind(name string) []byte {
	return []byte("naupegos secret\x00" + x.cluster + "\x00" + name)
}
