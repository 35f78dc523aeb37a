package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
)

const backupID = "backup/create"

// BackupTarget returns where the backups of a document's cluster are kept; dir is the store's directory.
func BackupTarget(_ *v1alpha1.Cluster, dir string) (backup.Target, error) {
	return backup.Directory(filepath.Join(dir, "backups")), nil
}

// PlanBackup plans to make a backup. made, which may be nil, is called with it.
func (c *Cluster) PlanBackup(reason string, made func(*backup.Set)) (*plan.Plan, error) {
	if !c.facts.Bootstrapped() {
		return nil, errNotBootstrapped(c.Name())
	}
	return &plan.Plan{Verb: "backup", Cluster: c.Name(), Steps: []*plan.Step{c.backupStep(reason, made)}}, nil
}

// backupStep makes a backup, before what may go wrong among others. made may be nil.
func (c *Cluster) backupStep(reason string, made func(*backup.Set)) *plan.Step {
	step := &plan.Step{ID: backupID, Action: plan.Create, Subject: "cluster", Title: "make a backup", Reason: reason}
	t, err := BackupTarget(c.doc, c.stateDir)
	if err == nil {
		step.Details = []string{"into " + t.String() + ", encrypted for the store's identity"}
	}
	step.Run = func(ctx context.Context, p plan.Progress) error {
		if err != nil {
			return err
		}
		src, err := c.backupSource(ctx, reason, p)
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
		return nil
	}
	return step
}

// backupSource is what a backup of this cluster is made of, as it is now.
func (c *Cluster) backupSource(ctx context.Context, reason string, p plan.Progress) (*backup.Source, error) {
	recipients := []string{c.store.Recipient()}
	o, err := c.operatorPart(ctx)
	if err != nil {
		return nil, err
	}
	sealed, err := o.Seal(recipients)
	if err != nil {
		return nil, err
	}
	about := backup.Manifest{
		Cluster: c.Name(), ClusterID: c.rec.ID, Reason: reason, Kubernetes: c.told().Machines, Bundle: o.Record.Bundle, Recipients: recipients,
	}
	if about.Authority, err = c.authorityDigest(ctx); err != nil {
		return nil, err
	}
	return &backup.Source{About: about, Operator: sealed, Snapshot: func(ctx context.Context, w io.Writer) (e backup.Etcd, err error) {
		err = c.withEtcd(ctx, func(from *etcd.Client) error {
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

// operatorPart is what the store knows of the cluster.
func (c *Cluster) operatorPart(ctx context.Context) (*backup.Operator, error) {
	o := &backup.Operator{Document: c.rec.Document, Record: RecordOf(c.rec), Secrets: map[string][]byte{}}
	names, err := c.secrets.Names(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if o.Secrets[name], err = c.secrets.Get(ctx, name); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// RecordOf is the record of a cluster as backups have it.
func RecordOf(rec *store.Cluster) backup.Record {
	r := backup.Record{ID: rec.ID, Name: rec.Name, Provider: rec.Provider, Bundle: BundleOf(rec), CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt}
	for f, v := range rec.Facts {
		r.Facts = append(r.Facts, backup.Fact{Kind: f.Kind, Subject: f.Subject, Value: v})
	}
	slices.SortFunc(r.Facts, func(a, b backup.Fact) int {
		return strings.Compare(a.Kind+"/"+a.Subject, b.Kind+"/"+b.Subject)
	})
	return r
}

// FromRecord is the record of a cluster out of a backup.
func FromRecord(r backup.Record, document []byte) store.Cluster {
	rec := store.Cluster{ID: r.ID, Name: r.Name, Provider: r.Provider, Document: document, Facts: store.Facts{}, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt}
	for _, f := range r.Facts {
		rec.Facts[store.Fact{Kind: f.Kind, Subject: f.Subject}] = f.Value
	}
	return rec
}

// authorityDigest is the SHA-256 of the certificate by which clients know the cluster.
func (c *Cluster) authorityDigest(ctx context.Context) (string, error) {
	certificates, err := c.pki.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(certificates)
	if block == nil {
		return "", fail.New(fail.Internal, "the authority of Kubernetes is no certificate")
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:]), nil
}
