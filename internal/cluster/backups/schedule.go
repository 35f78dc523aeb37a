package backups

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
)

// LayOrderStep is the ID of the step that copies the store's data to etcd, for the backups that machines make.
const LayOrderStep = "backup/lay"

// Scheduled describes the state of the machines' scheduled backups.
type Scheduled struct {
	Schedule string        `json:"schedule"`
	Last     *turns.Done   `json:"last,omitempty"`   // nil: none was made yet
	Failed   *turns.Failed `json:"failed,omitempty"` // since then
	// Unpruned says why the backups that need not stay could not be removed after the last one; nil: they were.
	Unpruned *turns.Failed `json:"unpruned,omitempty"`
	Next     time.Time     `json:"next"`
	Overdue  bool          `json:"overdue"` // one should be there that is not
	Problem  string        `json:"problem,omitempty"`
}

// onSchedule collects the machines' reports about their backups; nil if they make none.
func (c *Keeper) onSchedule(ctx context.Context) *Scheduled {
	s, text, ok := c.Scheduled()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, backupsLook)
	defer cancel()
	now := time.Now()
	is := &Scheduled{Schedule: text, Next: s.Next(now)}
	err := c.WithEtcd(ctx, func(e *etcd.Client) error {
		for key, v := range map[string]any{turns.DoneKey: &is.Last, turns.FailedKey: &is.Failed, turns.UnprunedKey: &is.Unpruned} {
			raw, err := e.Get(ctx, key)
			if err == nil && raw != nil {
				err = json.Unmarshal(raw, v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		is.Problem = err.Error()
		return is
	}
	since, _ := time.Parse(time.RFC3339, c.Facts.Get(memory.BackupFrom)) // zero where machines make none yet
	if is.Last != nil && is.Last.Turn.After(since) && !is.Last.Ahead(now) {
		since = is.Last.Turn
	}
	is.Overdue = !since.IsZero() && turns.Overdue(s, since, now)
	return is
}

// OrderDigest covers the store's data of the cluster without certificates, and without facts that Converged or a restore writes after the copy.
func (c *Keeper) OrderDigest(ctx context.Context) (string, error) {
	o, err := c.operatorPart(ctx, c.BundleToBe())
	if err != nil {
		return "", err
	}
	o.Record.Facts = slices.DeleteFunc(o.Record.Facts, func(f backup.Fact) bool {
		return slices.Contains([]memory.Kind{memory.BackupLaid, memory.BackupFrom, memory.Converged, memory.Restored, memory.Restoring,
			memory.SoakSince, memory.PoolSize, memory.PoolShape, memory.PoolFormer}, memory.Kind(f.Kind))
	})
	o.Record.UpdatedAt, o.Record.CreatedAt = time.Time{}, time.Time{}
	maps.DeleteFunc(o.Secrets, func(name string, _ []byte) bool { return pki.IsLeaf(name) })
	raw, err := json.Marshal(struct {
		*backup.Operator
		Recipients []string
	}{o, c.backupRecipients()})
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "digest the operator's record")
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// LayOrder stores the inputs of scheduled backups, except etcd's data, in etcd, unless they are there. It deletes the previous ones last.
func (c *Keeper) LayOrder(ctx context.Context, p plan.Progress) error {
	for _, name := range []string{backup.SigningSecret, backup.MachinesSecret} { // the digest covers both
		if _, err := c.SigningKey(ctx, name); err != nil {
			return err
		}
	}
	digest, err := c.OrderDigest(ctx)
	if err != nil || digest == c.Facts.Get(memory.BackupLaid) {
		return err
	}
	src, err := c.backupSource(ctx, turns.Reason, c.BundleToBe(), p)
	if err != nil {
		return err
	}
	machines, err := c.SigningKey(ctx, backup.MachinesSecret)
	if err != nil {
		return err
	}
	public, err := backup.PublicOf(machines)
	if err != nil {
		return err
	}
	sign, err := src.Sign.Delegate(public, src.About, src.Operator)
	if err != nil {
		return err
	}
	parts, order, err := turns.Lay(src.About, src.Operator, &sign)
	if err != nil {
		return err
	}
	err = c.WithEtcd(ctx, func(e *etcd.Client) error {
		for _, pair := range append(parts, order) {
			if err := e.Put(ctx, pair.Key, pair.Value); err != nil {
				return err
			}
		}
		keys, _, err := e.Keys(ctx, turns.Prefix)
		if err != nil {
			return err
		}
		return e.Delete(ctx, turns.Former(keys, parts))
	})
	if err != nil {
		return err
	}
	if c.Facts.Get(memory.BackupFrom) == "" {
		if err := c.Facts.Set(ctx, memory.BackupFrom, time.Now().UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return c.Facts.Set(ctx, memory.BackupLaid, digest)
}

// TakeOrderStep removes the inputs of scheduled backups from etcd.
func (c *Keeper) TakeOrderStep(reason string) *plan.Step {
	return &plan.Step{
		ID: LayOrderStep, Action: plan.Destroy, Subject: "cluster", Title: "delete the copy of the store's data from etcd", Reason: reason,
		Run: func(ctx context.Context, _ plan.Progress) error { return c.takeOrder(ctx) },
	}
}

func (c *Keeper) takeOrder(ctx context.Context) error {
	err := c.WithEtcd(ctx, func(e *etcd.Client) error {
		keys, _, err := e.Keys(ctx, turns.Prefix)
		if err != nil {
			return err
		}
		return e.Delete(ctx, keys)
	})
	if err != nil {
		return err
	}
	if err := c.Facts.Set(ctx, memory.BackupFrom, ""); err != nil {
		return err
	}
	return c.Facts.Set(ctx, memory.BackupLaid, "")
}
