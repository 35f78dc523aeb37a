package operate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/rehearse"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/scratch"
	"github.com/naupegos/naupegos/internal/store"
)

// FindBundle finds or makes the bundle of a Kubernetes release for the cluster of a document: see Options.Bundle.
type FindBundle func(ctx context.Context, doc *v1alpha1.Cluster, version, was string) (use, newest *bundle.Bundle, err error)

// OpenedBackup is a backup decrypted into a private directory. The caller must call Remove.
type OpenedBackup struct {
	*backup.Contents
	Set *backup.Set
	Doc *v1alpha1.Cluster // with the Kubernetes release of the backup
	Rec store.Cluster     // what the store knew of the cluster

	bundle *bundle.Bundle
	dir    *scratch.Dir
}

// TrustOf returns the signers that the store trusts for backups of a cluster: the cluster's own key, if the store has it.
func TrustOf(ctx context.Context, st store.Store, clusterID string) (backup.Trust, error) {
	if clusterID == "" {
		return backup.Trust{}, nil
	}
	key, err := st.Secrets(clusterID).Get(ctx, backup.SigningSecret)
	if fail.KindOf(err) == fail.NotFound {
		return backup.Trust{}, nil // the identity's endorsement counts
	}
	if err != nil {
		return backup.Trust{}, err
	}
	known, err := backup.PublicOf(key)
	return backup.Trust{Known: known}, err
}

// OpenBackup decrypts a backup with the identities that key returns, provided that trust covers its signer, and finds the bundle of its release.
func OpenBackup(ctx context.Context, set *backup.Set, key func() ([]byte, error), trust backup.Trust, find FindBundle) (_ *OpenedBackup, err error) {
	if _, known := release.Of(set.Kubernetes); !known {
		return nil, fail.New(fail.Refused, "the backup is of Kubernetes %s, which this naupegos does not know", set.Kubernetes).At(set.Where()).Do("use a newer naupegos")
	}
	identities, err := key()
	if err != nil {
		return nil, err
	}
	o := &OpenedBackup{Set: set}
	if o.dir, err = scratch.Make("", "naupegos-backup-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.dir.Remove())
		}
	}()
	if o.Contents, err = set.Extract(ctx, identities, trust, o.dir.Path); err != nil {
		return nil, err
	}
	o.Rec = memory.FromRecord(o.Record, o.Document)
	if o.Doc, err = validation.Parse("the document in backup "+set.ID, o.Document); err != nil {
		return nil, err
	}
	o.Doc.Spec.Kubernetes.Version = set.Kubernetes
	if o.bundle, _, err = find(ctx, o.Doc, set.Kubernetes, o.BundleID); err == nil && o.bundle == nil {
		err = fail.New(fail.NotFound, "the bundle of Kubernetes %s, whose programs open the backup, is not here", set.Kubernetes).Do("naupegos bundle build --kubernetes %s", set.Kubernetes)
	}
	return o, err
}

// Remove deletes the decrypted files. It may be called more than once.
func (o *OpenedBackup) Remove() error { return o.dir.Remove() }

// Rehearsal holds the options of a rehearsal.
type Rehearsal struct {
	By     string                           // the version of this program
	Within time.Duration                    // time limit; 0: 10 minutes
	Tidy   *rehearse.Tidy                   // also make a snapshot that etcd can start from; nil: don't
	Status func(format string, args ...any) // reports progress; may be nil
}

// Rehearse proves the backup and records the proof next to it. With Tidy it also returns the file with the snapshot that etcd can start from.
func (o *OpenedBackup) Rehearse(ctx context.Context, r Rehearsal) (p *rehearse.Proof, start string, err error) {
	list, err := backups.EncryptionOf(&o.Rec, o.Doc)
	if err != nil {
		return nil, "", err
	}
	generations, err := backups.GenerationsOf(&o.Rec)
	if err != nil {
		return nil, "", err
	}
	if r.Tidy != nil {
		start = filepath.Join(o.dir.Path, "start.db")
	}
	sandbox := filepath.Join(o.dir.Path, "sandbox")
	if err := os.Mkdir(sandbox, 0o700); err != nil {
		return nil, "", fail.Wrap(fail.Refused, err, "make a directory for the rehearsal")
	}
	p, err = rehearse.Run(ctx, rehearse.Set{
		ID: o.Set.ID, Snapshot: o.SnapshotPath, Etcd: o.Set.Etcd, Document: o.Doc, Encryption: list, Version: o.Set.Kubernetes, Secrets: o.Secrets, Keys: generations,
	}, rehearse.Options{Bundle: o.bundle, Dir: sandbox, Timeout: r.Within, Tidy: r.Tidy, Out: start, Status: r.Status})
	if err != nil {
		return nil, "", fail.Wrap(fail.KindOf(err), err, "rehearse backup %s", o.Set.ID).Enough() // the rehearsal already waited within its sandbox, so repeating it is pointless
	}
	return p, start, o.Set.Prove(ctx, o.Secrets[backup.SigningSecret], r.By, p.At, p.Checks()...)
}

// The time limits of a rehearsal as a verb, and of opening the backup in addition.
const (
	rehearseWithin = 15 * time.Minute
	openWithin     = 5 * time.Minute
)

// RehearseStep is the prefix of the ID of the step that proves a backup; the backup's ID follows.
const RehearseStep = "backup/rehearse/"

// planRehearse plans to prove the named backup, else the newest of this cluster. If that newest one is proven already, b is Idle.
func planRehearse(ctx context.Context, b *Begun) (err error) {
	set, target := (*backup.Set)(nil), b.Cluster.BackupTarget()
	if b.Asked.Backup != "" {
		set, err = backup.Open(ctx, target, b.Record.Name, b.Asked.Backup)
	} else if set, _, err = backup.Newest(ctx, target, b.Record.Name, b.Record.ID); err == nil && set == nil {
		err = backup.ErrNone(target, b.Record.Name)
	}
	if err != nil {
		return err
	}
	b.Idle = b.Asked.Backup == "" && set.Proven()
	b.Asked.Backup = set.ID // the agreement covers this backup only
	within := time.Duration(b.Asked.Seconds) * time.Second
	if within == 0 {
		within = rehearseWithin
	}
	var done Done
	r := Rehearsal{Within: within}
	b.subject = set.ID
	p := &plan.Plan{Verb: Rehearse, Cluster: b.Record.Name, Steps: []*plan.Step{{
		ID: RehearseStep + set.ID, Action: plan.Change, Subject: "cluster", Title: "rehearse backup " + set.ID, Reason: "a backup counts only once it is proven",
		Details: []string{set.Where()}, Timeout: within + openWithin,
		Run: func(ctx context.Context, progress plan.Progress) (err error) {
			r.Status = progress.Status
			done.Proof, err = b.rehearse(ctx, set, r)
			return err
		},
	}}}
	b.only(p)
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		r.By = t.Meta["version"]
		err := b.Session.CarryOut(ctx, p, t)
		done.Changed = err == nil
		return done, err
	}
	return nil
}

// rehearse opens a backup with the store's identity and proves it.
func (b *Begun) rehearse(ctx context.Context, set *backup.Set, r Rehearsal) (_ *rehearse.Proof, err error) {
	r.Status("opening the backup")
	trust, err := TrustOf(ctx, b.Store, b.Record.ID)
	if err != nil {
		return nil, err
	}
	o, err := OpenBackup(ctx, set, func() ([]byte, error) { return b.Store.Identity(), nil }, trust, b.bundles)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Remove()) }()
	p, _, err := o.Rehearse(ctx, r)
	return p, err
}
