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
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

const backupID = "backup/create"

// BackupTarget returns where the backups of a document's cluster are kept; dir is the store's directory. doc may be nil.
func BackupTarget(doc *v1alpha1.Cluster, dir string) backup.Target {
	if doc != nil && doc.Spec.Backup != nil && doc.Spec.Backup.To != nil {
		to := doc.Spec.Backup.To
		if to.S3 != nil {
			return s3.New(*to.S3)
		}
		return backup.Directory(to.Directory)
	}
	return backup.Directory(filepath.Join(dir, "backups"))
}

// backupTarget returns where the backups of this cluster are kept.
func (c *Cluster) backupTarget() backup.Target { return BackupTarget(c.doc, c.stateDir) }

// backupRecipients are those who can open the backups of this cluster: the store's own first.
func (c *Cluster) backupRecipients() []string {
	all := []string{c.store.Recipient()}
	if b := c.doc.Spec.Backup; b != nil {
		for _, r := range b.Recipients {
			if r != all[0] {
				all = append(all, r)
			}
		}
	}
	return all
}

// backupKeep says which backups stay.
func (c *Cluster) backupKeep() backup.Keep {
	if b := c.doc.Spec.Backup; b != nil && b.Keep != nil {
		return backup.Keep{Last: b.Keep.Last, Days: b.Keep.Days, Weeks: b.Keep.Weeks}
	}
	return backup.Keep{}
}

// PlanBackup plans to make a backup. made, which may be nil, is called with it.
func (c *Cluster) PlanBackup(reason string, made func(*backup.Set)) (*plan.Plan, error) {
	if !c.facts.Bootstrapped() {
		return nil, errNotBootstrapped(c.Name())
	}
	return &plan.Plan{Verb: "backup create", Cluster: c.Name(), Steps: []*plan.Step{c.backupStep(reason, made)}}, nil
}

// backupStep makes a backup, before what may go wrong among others, and removes those that need not stay then. made may be nil.
func (c *Cluster) backupStep(reason string, made func(*backup.Set)) *plan.Step {
	t := c.backupTarget()
	whom := "the store's identity"
	if b := c.doc.Spec.Backup; b != nil && len(b.Recipients) > 0 {
		whom += " and " + plural(len(b.Recipients), "recipient")
	}
	return &plan.Step{
		ID: backupID, Action: plan.Create, Subject: "cluster", Title: "make a backup", Reason: reason,
		Details: []string{"into " + t.String() + ", encrypted for " + whom},
		Run: func(ctx context.Context, p plan.Progress) error {
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
	k := c.backupKeep()
	if k == (backup.Keep{}) {
		return nil, nil
	}
	sets, err := backup.List(ctx, c.backupTarget(), c.Name())
	return k.Expired(sets, c.rec.ID), err
}

// PlanPrune plans to remove the backups that need not stay.
func (c *Cluster) PlanPrune(ctx context.Context) (*plan.Plan, error) {
	if c.backupKeep() == (backup.Keep{}) {
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
	t := c.backupTarget()
	return t.String(), backup.WriteKey(ctx, t, c.Name(), c.store.Identity(), passphrase)
}

// backupSource is what a backup of this cluster is made of, as it is now.
func (c *Cluster) backupSource(ctx context.Context, reason string, p plan.Progress) (*backup.Source, error) {
	recipients := c.backupRecipients()
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
	rec := *c.rec
	rec.Facts = c.facts.All() // other steps may be learning more meanwhile
	o := &backup.Operator{Document: rec.Document, Record: RecordOf(&rec), Secrets: map[string][]byte{}}
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

// Backups says how a cluster's backups are.
type Backups struct {
	Last     time.Time `json:"last,omitzero"` // when the last one was made; none: zero
	LastID   string    `json:"lastID,omitempty"`
	Proven   time.Time `json:"proven,omitzero"` // when the last one was made that a rehearsal has found whole; none: zero
	ProvenID string    `json:"provenID,omitempty"`
	Problem  string    `json:"problem,omitempty"` // why it can't be told
}

// backupsLook bounds looking for backups where something else is asked.
const backupsLook = 5 * time.Second

// backups looks for the last backup and the last proven one.
func (c *Cluster) backups(ctx context.Context) *Backups {
	ctx, cancel := context.WithTimeout(ctx, backupsLook)
	defer cancel()
	last, proven, err := backup.Newest(ctx, c.backupTarget(), c.Name(), c.rec.ID)
	b := &Backups{}
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

// Given is what a cluster that the store does not know is begun with: it comes back as what it was.
type Given struct {
	Secrets map[string][]byte // by name
	Facts   store.Facts
}

// EncryptionOf is by what API servers of the cluster of a record read Secrets.
func EncryptionOf(rec *store.Cluster, doc *v1alpha1.Cluster) ([]string, error) {
	c := Cluster{doc: doc, rec: rec, facts: memory.NewFacts(rec, nil)}
	return c.encryption()
}

// GenerationsOf says which generations of its authorities and keys the cluster of a record uses.
func GenerationsOf(rec *store.Cluster) (map[string]pki.Generations, error) {
	c := Cluster{facts: memory.NewFacts(rec, nil)}
	r, err := c.toldRotation()
	if err != nil {
		return nil, err
	}
	return c.generations(r), nil
}

// NodesOf returns the names of the nodes of a cluster that is made anew by a document.
func NodesOf(doc *v1alpha1.Cluster) (names []string) {
	want, _ := wanted.Assign(doc, nil, nil)
	for _, s := range want {
		if s.Role != provider.Gateway {
			names = append(names, s.Name)
		}
	}
	return names
}
