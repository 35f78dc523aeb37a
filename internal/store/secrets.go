package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// secrets implements Secrets.
type secrets struct {
	s       *database
	cluster string
}

// Secrets implements Store.
func (s *database) Secrets(clusterID string) Secrets { return &secrets{s, clusterID} }

// Get implements Secrets.
func (x *secrets) Get(ctx context.Context, name string) ([]byte, error) {
	row, err := one(ctx, x.s, x.s.reads, scanSigned, "SELECT sealed, mac FROM secrets WHERE cluster_id = $1 AND name = $2", x.cluster, name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fail.New(fail.NotFound, "there is no secret %s", name).At(x.cluster)
	}
	if err != nil {
		return nil, x.s.wrap(err, "read the secret %s", name)
	}
	if err := x.s.verify(ctx, rowmac.Secrets, row.mac, x.cluster, name, row.text); err != nil {
		return nil, err
	}
	key, err := x.s.dataKey(ctx, x.cluster, false)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(row.text)
	if err == nil {
		raw, err = unseal(key, raw, x.bind(name))
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "the secret %s is damaged: it does not decrypt", name).At(x.cluster).
			Do("put back a backup: naupegos store restore")
	}
	return raw, nil
}

// Put implements Secrets.
func (x *secrets) Put(ctx context.Context, name string, value []byte) error {
	return x.insert(ctx, name, value, "DO UPDATE SET sealed = excluded.sealed, mac = excluded.mac, updated_at = excluded.updated_at")
}

// PutIfAbsent implements Secrets.
func (x *secrets) PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error) {
	if err := x.insert(ctx, name, value, "DO NOTHING"); err != nil {
		return nil, err
	}
	return x.Get(ctx, name)
}

func (x *secrets) insert(ctx context.Context, name string, value []byte, onConflict string) error {
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
	sealed := base64.StdEncoding.EncodeToString(raw)
	err = x.s.fenced(ctx, x.cluster, func(tx *sql.Tx) error {
		if err := x.s.current(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx,
			"INSERT INTO secrets (cluster_id, name, sealed, mac, updated_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (cluster_id, name) "+onConflict, //nolint:gosec // one of two constants
			x.cluster, name, sealed, x.s.mac(rowmac.Secrets, x.cluster, name, sealed), micros(time.Now()))
		return err
	})
	if x.s.d.IsForeignKey(err) {
		return x.s.unknown(ctx, x.s.reads, x.cluster)
	}
	return x.s.wrap(err, "store the secret %s", name)
}

// Delete implements Secrets.
func (x *secrets) Delete(ctx context.Context, name string) error {
	err := x.s.fenced(ctx, x.cluster, func(tx *sql.Tx) error {
		return run(ctx, tx, "DELETE FROM secrets WHERE cluster_id = $1 AND name = $2", x.cluster, name)
	})
	return x.s.wrap(err, "forget the secret %s", name)
}

// Names implements Secrets.
func (x *secrets) Names(ctx context.Context) ([]string, error) {
	names, err := list(ctx, x.s, x.s.reads, value[string], "SELECT name FROM secrets WHERE cluster_id = $1", x.cluster)
	slices.Sort(names) // databases sort differently
	return names, x.s.wrap(err, "list the secrets")
}

// bind returns the place to which a sealed value is bound, so that it opens nowhere else.
func (x *secrets) bind(name string) []byte {
	return []byte("naupegos secret\x00" + x.cluster + "\x00" + name)
}
