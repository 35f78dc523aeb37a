package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/fail"
)

// backupSigner returns what signs the cluster's backups.
func (c *Cluster) backupSigner(ctx context.Context) (*backup.Signer, error) {
	key, err := c.signingKey(ctx, backup.SigningSecret)
	if err != nil {
		return nil, err
	}
	return backup.NewSigner(key, c.store.Identity(), c.rec.ID)
}

// signingKey returns one of the keys that sign backups, made on first use.
func (c *Cluster) signingKey(ctx context.Context, name string) ([]byte, error) {
	key, err := c.secrets.Get(ctx, name)
	if fail.KindOf(err) == fail.NotFound {
		key, err = c.secrets.PutIfAbsent(ctx, name, backup.NewSigningKey())
	}
	return key, err
}
