// Package backups creates, prunes and restores a cluster's backups, configures control-plane machines to create them on schedule, and recovers
// etcd from a surviving member.
package backups

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"io"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/store"
)

// Keeper keeps the backups of one cluster.
type Keeper struct {
	*nodes.Nodes
}

// BackupStep makes a backup, for example before a risky change, and removes the backups that expired. made may be nil.
const BackupStep = "backup/create"

// backupRecipients lists the age recipients that can open the backups of this cluster, the store's own first.
func (c *Keeper) backupRecipients() []string {
	all := []string{c.Store.Recipient()}
	if b := c.Doc.Spec.Backup; b != nil {
		for _, r := range b.Recipients {
			if r != all[0] {
				all = append(all, r)
			}
		}
	}
	return all
}

// PlanBackup plans to create a backup. It calls made, which may be nil, with the result.
func (c *Keeper) PlanBackup(reason string, made func(*backup.Set)) (*plan.Plan, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	return &plan.Plan{Verb: "backup create", Cluster: c.Name(), Steps: []*plan.Step{c.BackupStep(reason, made)}}, nil
}

// BackupStep makes a backup, for example before a risky change, and removes the backups that expired. made may be nil.
func (c *Keeper) BackupStep(reason string, made func(*backup.Set)) *plan.Step {
	t := c.BackupTarget()
	whom := "the store's identity"
	if b := c.Doc.Spec.Backup; b != nil && len(b.Recipients) > 0 {
		whom += " and " + words.Count(len(b.Recipients), "recipient", "recipients")
	}
	return &plan.Step{
		ID: BackupStep, Action: plan.Create, Subject: "cluster", Title: "create a backup", Reason: reason,
		Details: []string{"in " + t.String() + ", encrypted for " + whom},
		Run: func(ctx context.Context, p plan.Progress) error {
			src, err := c.backupSource(ctx, reason, c.Facts.Get(memory.Bundle), p)
			if err != nil {
				return err
			}
			set, err := backup.Create(ctx, t, *src)
			if err != nil {
				return err
			}
			p.Status("wrote %s", set.Where())
			if made != nil {
				made(set)
			}
			if err := c.prune(ctx, p); err != nil && ctx.Err() != nil {
				return err
			} else if n, ok := p.(plan.Noter); ok && err != nil { // the backup is there; credentials may not be allowed to remove any
				n.Note("backups that need not stay could not be removed: %v", err)
			}
			return nil
		},
	}
}

// prune removes the backups that need not stay.
func (c *Keeper) prune(ctx context.Context, p plan.Progress) error {
	gone, err := c.expired(ctx)
	for i := 0; i < len(gone) && err == nil; i++ {
		p.Status("removing backup %s", gone[i].ID)
		err = gone[i].Remove(ctx)
	}
	return err
}

// expired returns the backups that need not stay.
func (c *Keeper) expired(ctx context.Context) ([]*backup.Set, error) {
	k := c.BackupKeep()
	if k == (backup.Keep{}) {
		return nil, nil
	}
	sets, err := backup.List(ctx, c.BackupTarget(), c.Name())
	return k.Expired(sets, c.Record.ID), err
}

// PlanPrune plans to remove the backups that need not stay.
func (c *Keeper) PlanPrune(ctx context.Context) (*plan.Plan, error) {
	if c.BackupKeep() == (backup.Keep{}) {
		return nil, fail.New(fail.Invalid, "the document of cluster %s does not say which backups stay", c.Name()).
			Do("spec.backup.keep says it: last, days, weeks")
	}
	gone, err := c.expired(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{Verb: "backup prune", Cluster: c.Name()}
	for _, s := range gone {
		p.Steps = append(p.Steps, &plan.Step{
			ID: "backup/remove/" + s.ID, Action: plan.Destroy, Subject: "cluster", Title: "remove backup " + s.ID,
			Reason: "spec.backup.keep does not keep it", Details: []string{s.Where()},
			Run: func(ctx context.Context, _ plan.Progress) error { return s.Remove(ctx) },
		})
	}
	return p, nil
}

// WriteBackupKey stores the store's identity next to the backups, encrypted with a passphrase. It returns the location.
func (c *Keeper) WriteBackupKey(ctx context.Context, passphrase string) (string, error) {
	t := c.BackupTarget()
	return t.String(), backup.WriteKey(ctx, t, c.Name(), c.Store.Identity(), passphrase)
}

// backupSource collects the content of a backup; bundle is the fact of the cluster's bundle.
func (c *Keeper) backupSource(ctx context.Context, reason, bundle string, p plan.Progress) (*backup.Source, error) {
	recipients := c.backupRecipients()
	if _, err := c.BackupSigner(ctx); err != nil { // makes the key, which belongs to the operator's part
		return nil, err
	}
	o, err := c.operatorPart(ctx, bundle)
	if err != nil {
		return nil, err
	}
	sealed, err := o.Seal(recipients)
	if err != nil {
		return nil, err
	}
	about := backup.Manifest{
		Cluster: c.Name(), ClusterID: c.Record.ID, Reason: reason, Kubernetes: c.Told().Machines, Bundle: o.Record.Bundle, Recipients: recipients,
	}
	if about.Authority, err = c.authorityDigest(ctx); err != nil {
		return nil, err
	}
	sign, err := c.BackupSigner(ctx)
	if err != nil {
		return nil, err
	}
	return &backup.Source{About: about, Operator: sealed, Sign: sign, Snapshot: func(ctx context.Context, w io.Writer) (e backup.Etcd, err error) {
		err = c.WithEtcd(ctx, func(from *etcd.Client) error {
			e, err = snapshot(ctx, from, w, p)
			return err
		})
		return e, err
	}}, nil
}

// snapshot counts the keys in etcd and writes its data.
func snapshot(ctx context.Context, from *etcd.Client, w io.Writer, p plan.Progress) (e backup.Etcd, err error) {
	p.Status("counting the objects in etcd")
	var tally backup.Tally
	e.Revision, err = from.Values(ctx, layout.RegistryPrefix, 0, func(key, value []byte) error {
		tally.Add(key, value)
		return nil
	})
	if err != nil {
		return e, err
	}
	tally.Into(&e)
	p.Status("writing etcd's data")
	info, err := from.Snapshot(ctx, w)
	e.Member, e.Version = info.Member, info.Version
	return e, err
}

// operatorPart collects the store's knowledge about the cluster, with this fact of its bundle.
func (c *Keeper) operatorPart(ctx context.Context, bundle string) (*backup.Operator, error) {
	rec := *c.Record
	rec.Facts = c.Facts.All() // a copy, because concurrent steps may add facts
	if bundle != "" {
		if rec.Facts == nil {
			rec.Facts = store.Facts{}
		}
		rec.Facts[store.Fact{Kind: string(memory.Bundle)}] = bundle
	}
	o := &backup.Operator{Document: rec.Document, Record: memory.RecordOf(&rec), Secrets: map[string][]byte{}}
	names, err := c.Secrets.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if o.Secrets[name], err = c.Secrets.Get(ctx, name); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// authorityDigest returns the SHA-256 of the certificate by which clients identify the cluster.
func (c *Keeper) authorityDigest(ctx context.Context) (string, error) {
	certificates, err := c.PKI.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(certificates)
	if block == nil {
		return "", fail.New(fail.Internal, "the authority of Kubernetes is not a certificate")
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:]), nil
}

// Backups describes the state of a cluster's backups.
type Backups struct {
	Last     time.Time `json:"last,omitzero"` // when the last one was made; none: zero
	LastID   string    `json:"lastID,omitempty"`
	Proven   time.Time `json:"proven,omitzero"` // when the last one was made that a rehearsal has found whole; none: zero
	ProvenID string    `json:"provenID,omitempty"`
	Problem  string    `json:"problem,omitempty"` // why the state is unknown
	// Scheduled describes the backups that machines make on schedule; nil without a schedule.
	Scheduled *Scheduled `json:"scheduled,omitempty"`
}

// backupsLook bounds looking for backups where something else is asked.
const backupsLook = 5 * time.Second

// Backups looks for the last backup and the last proven one.
func (c *Keeper) Backups(ctx context.Context) *Backups {
	scheduled := c.onSchedule(ctx)
	ctx, cancel := context.WithTimeout(ctx, backupsLook)
	defer cancel()
	last, proven, err := backup.Newest(ctx, c.BackupTarget(), c.Name(), c.Record.ID)
	b := &Backups{Scheduled: scheduled}
	if err != nil {
		b.Problem = err.Error()
	}
	if last != nil {
		b.Last, b.LastID = last.CreatedAt, last.ID
	}
	if proven != nil {
		b.Proven, b.ProvenID = proven.CreatedAt, proven.ID
	}
	return b
}

// Underway returns an error while another verb is unfinished, else nil.
func (c *Keeper) Underway(context.Context) error {
	switch {
	case c.Facts.Is(memory.Resetting):
		return c.ErrResetting()
	case c.Facts.Is(memory.Releasing):
		return env.ErrReleasing(c.Name())
	case c.Facts.Is(memory.Importing):
		return env.ErrImporting(c.Name())
	case c.Recovering() != nil:
		return c.ErrRecovering()
	}
	if r := c.Restoring(); r != nil && r.Living {
		return fail.New(fail.Refused, "what cluster %s holds is being replaced by backup %s, and that has not come to its end", c.Name(), r.Set).
			Do("naupegos backup restore %s --from %s --consent %s continues it", c.Name(), r.Set, ConsentRestore)
	}
	return nil
}
