package env

import (
	"context"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/schedule"
	"github.com/naupegos/naupegos/internal/store"
)

// BackupTarget returns the target of a cluster's backups. doc may be nil. With closed, the document must not use files and variables of this
// host.
func BackupTarget(doc *v1alpha1.Cluster, st store.Store, closed bool) backup.Target {
	n := Credentials{Closed: closed}
	if doc != nil {
		n.in, n.cluster = policy.NewCredentials(st.ServerSecrets()), doc.Metadata.Name
	}
	return n.backupTarget(doc, st.Dir())
}

// BackupTarget returns the target of this cluster's backups.
func (c *Env) BackupTarget() backup.Target { return c.Credentials.backupTarget(c.Doc, c.StateDir) }

// BackupKeep returns the retention policy of the backups.
func (c *Env) BackupKeep() backup.Keep {
	if b := c.Doc.Spec.Backup; b != nil && b.Keep != nil {
		return backup.Keep{Last: b.Keep.Last, Days: b.Keep.Days, Weeks: b.Keep.Weeks}
	}
	return backup.Keep{}
}

// Scheduled returns the schedule of the machines' backups, or false if there is none.
func (c *Env) Scheduled() (s schedule.Schedule, text string, ok bool) {
	if b := c.Doc.Spec.Backup; b != nil && b.Schedule != "" {
		s, err := schedule.Parse(b.Schedule)
		return s, b.Schedule, err == nil // it is valid: the document is
	}
	return s, "", false
}

// BackupSigner returns the signer of the cluster's backups.
func (c *Env) BackupSigner(ctx context.Context) (*backup.Signer, error) {
	key, err := c.SigningKey(ctx, backup.SigningSecret)
	if err != nil {
		return nil, err
	}
	return backup.NewSigner(key, c.Store.Identity(), c.Record.ID)
}

// SigningKey returns one of the keys that sign backups, made on first use.
func (c *Env) SigningKey(ctx context.Context, name string) ([]byte, error) {
	key, err := c.Secrets.Get(ctx, name)
	if fail.KindOf(err) == fail.NotFound {
		key, err = c.Secrets.PutIfAbsent(ctx, name, backup.NewSigningKey())
	}
	return key, err
}
