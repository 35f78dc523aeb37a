package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/store"
)

// BackupStep is the ID of the step that makes a backup, of whatever run.
const BackupStep = "backup/create"

const layStep = "backup/lay"

// backupRecipients are those who can open the backups of this cluster: the store's own first.
func (c *Cluster) backupRecipients() []string {
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

// PlanBackup plans to make a backup. made, which may be nil, is called with it.
func (c *Cluster) PlanBackup(reason string, made func(*backup.Set)) (*plan.Plan, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	return &plan.Plan{Verb: "backup create", Cluster: c.Name(), Steps: []*plan.Step{c.backupStep(reason, made)}}, nil
}

// backupStep makes a backup, before what may go wrong among others, and removes those that need not stay then. made may be nil.
func (c *Cluster) backupStep(reason string, made func(*backup.Set)) *plan.Step {
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
			gone, err := c.expired(ctx)
			if err != nil {
				return err
			}
			for _, s := range gone {
				p.Status("removing backup %s", s.ID)
				if err := s.Remove(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// expired returns the backups that need not stay.
func (c *Cluster) expired(ctx context.Context) ([]*backup.Set, error) {
	k := c.BackupKeep()
	if k == (backup.Keep{}) {
		return nil, nil
	}
	sets, err := backup.List(ctx, c.BackupTarget(), c.Name())
	return k.Expired(sets, c.Record.ID), err
}

// PlanPrune plans to remove the backups that need not stay.
func (c *Cluster) PlanPrune(ctx context.Context) (*plan.Plan, error) {
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

// WriteBackupKey puts the store's identity beside the backups, encrypted by a passphrase. It returns where.
func (c *Cluster) WriteBackupKey(ctx context.Context, passphrase string) (string, error) {
	t := c.BackupTarget()
	return t.String(), backup.WriteKey(ctx, t, c.Name(), c.Store.Identity(), passphrase)
}

// backupSource is what a backup of this cluster is made of, as it is now; bundle is the fact of its bundle.
func (c *Cluster) backupSource(ctx context.Context, reason, bundle string, p plan.Progress) (*backup.Source, error) {
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

// operatorPart is what the store knows of the cluster, with this as the fact of its bundle.
func (c *Cluster) operatorPart(ctx context.Context, bundle string) (*backup.Operator, error) {
	rec := *c.Record
	rec.Facts = c.Facts.All() // other steps may be learning more meanwhile
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

// authorityDigest is the SHA-256 of the certificate by which clients know the cluster.
func (c *Cluster) authorityDigest(ctx context.Context) (string, error) {
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

// orderDigest covers the store's data of the cluster without certificates, and without facts that Converged or a restore writes after the copy.
func (c *Cluster) orderDigest(ctx context.Context) (string, error) {
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
		return "", fail.Wrap(fail.Internal, err, "compare what the store knows with what machines have of it")
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// planLaying has the machines that make backups learn what the store knows, sealed: after all else that a plan does, and where it has changed.
func (a *applying) planLaying() error {
	was := a.Facts.Get(memory.BackupLaid)
	_, text, on := a.Scheduled()
	s := &plan.Step{ID: layStep, Action: plan.Change, Subject: "cluster", Title: "copy the cluster's data from the store to etcd, encrypted", Run: a.layOrder}
	switch {
	case !on && was == "":
		return nil
	case !on:
		s = a.takeOrderStep("the document no longer has machines make backups")
	default:
		now, err := a.orderDigest(context.Background())
		if err != nil {
			return err
		}
		if was == now && a.graph.Empty() {
			return nil
		}
		s.Reason = "machines include it in the backups that they make (" + text + ")"
		if was == "" {
			s.Action = plan.Create
		}
	}
	a.add(stageLay, s)
	return nil
}

// layOrder lays what sets on schedule are made of beside etcd's data, unless it lies there. What it replaces goes last.
func (c *Cluster) layOrder(ctx context.Context, p plan.Progress) error {
	for _, name := range []string{backup.SigningSecret, backup.MachinesSecret} { // both belong to what the digest is of
		if _, err := c.SigningKey(ctx, name); err != nil {
			return err
		}
	}
	digest, err := c.orderDigest(ctx)
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

// takeOrderStep takes out of etcd what sets on schedule were made of.
func (c *Cluster) takeOrderStep(reason string) *plan.Step {
	return &plan.Step{
		ID: layStep, Action: plan.Destroy, Subject: "cluster", Title: "delete the copy of the store's data from etcd", Reason: reason,
		Run: func(ctx context.Context, _ plan.Progress) error { return c.takeOrder(ctx) },
	}
}

func (c *Cluster) takeOrder(ctx context.Context) error {
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
