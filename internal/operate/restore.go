package operate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/rehearse"
	"github.com/naupegos/naupegos/internal/store"
)

// Restore says which cluster a backup becomes: the former one rebuilt (the default), a new one, or the living one with its data replaced.
type Restore struct {
	New    bool   `json:"new,omitempty" doc:"Create another cluster, with its own authorities and keys"`
	Of     string `json:"of,omitempty" maxLength:"63" doc:"With new: the backup's cluster; empty: a cluster of the same name"`
	Living bool   `json:"living,omitempty" doc:"Replace the live cluster's state: everything written since is lost"`
}

// BackupSource overrides the location of backups and the keys that open them, which otherwise come from the store and its documents.
type BackupSource struct {
	Target backup.Target                                               // nil: as the documents say
	Key    func(ctx context.Context, in backup.Target) ([]byte, error) // nil: the store's identity
	Trust  backup.Trust                                                // the operator's choice of accepted signers; the store's key is added if Known is nil
}

// BackupsOf describes where one cluster's backups are.
type BackupsOf struct {
	Cluster   string
	ClusterID string // empty if the store does not know the cluster
	Target    backup.Target
	Unknown   error // why the store does not know the cluster; nil: it does
}

// FindBackups finds where the backups of a cluster are: according to doc, else to the stored document, else in the store's directory. It uses only the
// policy of o.
func FindBackups(ctx context.Context, st store.Store, name string, doc *v1alpha1.Cluster, o *Options) (*BackupsOf, error) {
	b := &BackupsOf{Cluster: name}
	rec, err := st.Cluster(ctx, name)
	switch {
	case fail.KindOf(err) == fail.NotFound:
		b.Unknown, rec = err, &store.Cluster{}
	case err != nil:
		return nil, err
	}
	b.ClusterID = rec.ID
	if doc == nil && len(rec.Document) > 0 {
		if doc, err = validation.Parse("the stored document of "+name, rec.Document); err != nil {
			return nil, err
		}
	}
	if doc != nil {
		if err := o.Admit(ctx, st, doc); err != nil {
			return nil, err
		}
		if err := o.admitBackupsOf(ctx, st, doc, name); err != nil {
			return nil, err
		}
	}
	b.Target = env.BackupTarget(doc, st, o.Policy != nil)
	return b, nil
}

// restore is the state of a restore.
type restore struct {
	Restore
	set    *backup.Set
	target backup.Target
	living bool
	opened *OpenedBackup // nil before the backup is opened, and if an earlier restore continues
	// The document to store for a rebuilt cluster; and, once the backup is proven, the file with the snapshot that etcd starts from.
	document []byte
	start    string
}

func checkRestore(a *Asked) error {
	switch r := a.Restore; {
	case a.Backup == "":
		return fail.New(fail.Invalid, "no backup is given").Do("--from ID, or --from latest; naupegos backup list %s names them", a.Cluster)
	case r != nil && r.Of != "" && !r.New:
		return fail.New(fail.Invalid, "--of is for another cluster than the backup's").Do("--new-identity makes one")
	case r != nil && r.New && r.Living:
		return fail.New(fail.Invalid, "a new cluster, and one that lives, exclude each other").Do("what lives keeps its authorities and keys")
	}
	return nil
}

// openRestore finds the backup and opens a session: on the stored cluster if that lives or its restore has begun, else on one to build from the backup.
func openRestore(ctx context.Context, st store.Store, b *Begun, o Options) error {
	refuse := func(err error) error { return (&Session{Store: st}).CloseWith(err) }
	r, name := &restore{}, b.Asked.Cluster
	if b.restore = r; b.Asked.Restore != nil {
		r.Restore = *b.Asked.Restore
	}
	if err := b.findSet(ctx, st); err != nil {
		return refuse(err)
	}
	b.Asked.Backup = r.set.ID // the agreement covers this backup only
	rec, err := st.Cluster(ctx, name)
	if err == nil {
		if err := b.mayReplace(rec); err != nil {
			return refuse(err)
		}
		b.Session, b.Document, err = OpenNamed(ctx, st, name, o)
		return err
	}
	if fail.KindOf(err) == fail.NotFound {
		err = b.openSet(ctx, st)
	}
	if err != nil {
		return refuse(err)
	}
	o.NewID, o.Revives, o.Given = r.opened.Rec.ID, true, &backups.Given{Secrets: r.opened.Secrets, Facts: memory.OfKeys(r.opened.Rec.Facts)}
	b.Document, r.document = r.opened.Doc, r.opened.Document
	if r.New {
		o.NewID, o.Revives, o.Given = b.Asked.ClusterID, false, nil
		if b.Document, r.document, err = r.another(&b.Asked); err != nil {
			return refuse(err)
		}
	}
	b.Session, err = OpenDocument(ctx, st, b.Document, o)
	return err
}

// findSet finds the backup in the options' Backups.Target; without that, where FindBackups finds it by the request's document. The document of a new
// cluster counts only if it names a place of backups and the store does not know the former cluster.
func (b *Begun) findSet(ctx context.Context, st store.Store) (err error) {
	r, of := b.restore, b.Asked.Cluster
	if r.New {
		of = cmp.Or(r.Of, of)
	}
	if r.target = b.options.Backups.Target; r.target == nil {
		var doc *v1alpha1.Cluster
		if b.Asked.Document != "" {
			if doc, err = b.Asked.parse(); err != nil {
				return err
			}
		}
		switch {
		case doc == nil:
		case !r.New && doc.Metadata.Name != of:
			return fail.New(fail.Invalid, "the document describes cluster %s, not %s", doc.Metadata.Name, of).At(b.Asked.from())
		case r.New:
			if _, err := st.Cluster(ctx, of); err == nil || doc.Spec.Backup == nil || doc.Spec.Backup.To == nil {
				doc = nil
			}
		}
		found, err := FindBackups(ctx, st, of, doc, &b.options)
		if err != nil {
			return err
		}
		r.target = found.Target
	}
	r.set, err = backup.Open(ctx, r.target, of, b.Asked.Backup)
	return err
}

// mayReplace refuses to give up a stored cluster's data unless this restore has begun already, or the user asked for that and no other restore runs.
func (b *Begun) mayReplace(rec *store.Cluster) error {
	r, name := b.restore, rec.Name
	switch begun := backups.Restores(rec); {
	case begun == r.set.ID && !backups.RestoresLiving(rec), begun == "" && b.Asked.Resumed: // the latter: an earlier server process completed the restore
		return nil
	case r.New:
		return fail.New(fail.Refused, "there is a cluster %s", name).Do("give the new one another name, or naupegos destroy %s first", name)
	case !r.Living:
		return fail.New(fail.Refused, "cluster %s is alive, and everything written since %s would be lost", name, r.set.CreatedAt.Local().Format(time.DateTime)).
			Do("--consent %s replaces its data by the backup; or naupegos destroy %s first, which rebuilds its machines, too", backups.ConsentRestore, name)
	case begun != "" && begun != r.set.ID:
		return fail.New(fail.Refused, "cluster %s is being restored from backup %s", name, begun).Do("naupegos backup restore %s --from %s continues it", name, begun)
	}
	r.living = true // replace the living cluster's data
	return nil
}

// openSet decrypts the backup with the options' Backups.Key, else with the store's identity. The decrypted files are removed when the session closes.
func (b *Begun) openSet(ctx context.Context, st store.Store) (err error) {
	r, key := b.restore, b.options.Backups.Key
	if key == nil {
		key = func(context.Context, backup.Target) ([]byte, error) { return st.Identity(), nil }
	}
	trust := b.options.Backups.Trust
	if known, err := TrustOf(ctx, st, r.set.ClusterID); err != nil {
		return err
	} else if trust.Known == nil {
		trust.Known = known.Known
	}
	r.opened, err = OpenBackup(ctx, r.set, func() ([]byte, error) {
		identities, err := key(ctx, r.target)
		if err == nil {
			b.tell("Opening backup %s.", r.set.ID)
		}
		return identities, err
	}, trust, b.options.Bundle)
	if err == nil {
		b.undo = append(b.undo, r.opened.Remove)
	}
	return err
}

// tell reports progress during planning.
func (b *Begun) tell(format string, args ...any) {
	if b.options.Say != nil {
		fmt.Fprintf(b.options.Say, format+"\n", args...)
	}
}

// another returns the document of a new cluster made from the backup: the given one, else the backup's with the new name, for which doc also gets the
// backup's Kubernetes version. It refuses a document for which the backup can't be used: see backups.FitsAnew.
func (r *restore) another(a *Asked) (doc *v1alpha1.Cluster, document []byte, err error) {
	given := a.Document != ""
	if given {
		document = []byte(a.Document)
		doc, err = a.parse()
	} else if document, err = wanted.SetName(r.opened.Document, a.Cluster); err == nil {
		doc, err = validation.Parse("the document in backup "+r.set.ID, document)
	}
	if err != nil {
		return nil, nil, err
	}
	if doc.Metadata.Name != a.Cluster {
		return nil, nil, fail.New(fail.Invalid, "the document describes cluster %s, not %s", doc.Metadata.Name, a.Cluster).At(a.from())
	}
	if !given {
		doc.Spec.Kubernetes.Version = r.set.Kubernetes
	}
	return doc, document, backups.FitsAnew(doc, r.opened.Doc, !given)
}

// prove rehearses the backup before the restore touches any cluster, and makes the snapshot that etcd starts from. A session that only plans skips it.
func (b *Begun) prove(ctx context.Context, tidy *rehearse.Tidy) error {
	if b.options.Verb == "" {
		return nil
	}
	r := b.restore
	p, start, err := r.opened.Rehearse(ctx, Rehearsal{By: b.options.Version, Within: time.Duration(b.Asked.Seconds) * time.Second, Tidy: tidy,
		Status: func(format string, args ...any) { b.tell("  "+format, args...) }})
	if err != nil {
		return err
	}
	b.tell("Backup %s is proven: %d objects, %d Secrets decrypted.", p.Set, p.Objects, p.Secrets)
	r.start = start
	return nil
}

func planRestore(ctx context.Context, b *Begun) (err error) {
	r := b.restore
	switch {
	case r.living:
		return b.planRestoreLiving(ctx)
	case r.opened != nil:
		if err := b.planRebuild(ctx); err != nil {
			return err
		}
	}
	if err := b.planApply(ctx); err != nil {
		return err
	}
	b.carry = func(ctx context.Context, t Terms) (done Done, err error) {
		t.Commit = b.keeping()
		if done.Changed, err = b.Converge(ctx, b.First, t); err != nil {
			return done, err
		}
		return b.compareVolumes(ctx, done), nil
	}
	return nil
}

// planRebuild proves the backup and makes the next plan start the cluster from it. A new cluster (New) gets an encryption key of its own.
func (b *Begun) planRebuild(ctx context.Context) error {
	r := b.restore
	tidy := &rehearse.Tidy{Machines: env.NodesOf(b.Document), Rebuilt: true}
	if r.New {
		others, err := backups.EncryptionOf(&r.opened.Rec, r.opened.Doc)
		if err != nil {
			return err
		}
		list, keys, err := b.Cluster.EncryptOtherwise(ctx, others)
		if err != nil {
			return err
		}
		tidy.Anew = &rehearse.Anew{Encryption: list, Keys: keys, Prefixes: []string{turns.Prefix}}
	}
	if err := b.prove(ctx, tidy); err != nil {
		return err
	}
	return b.Cluster.Restore(ctx, r.set.ID, r.set.Kubernetes, r.set.CreatedAt)
}

// planRestoreLiving proves the backup and plans to replace a living cluster's data by it, or plans to continue an interrupted replacement.
func (b *Begun) planRestoreLiving(ctx context.Context) error {
	r, from := b.restore, (*backup.Set)(nil)
	if backups.Restores(b.Record) == "" {
		from = r.set
		if err := b.openSet(ctx, b.Store); err != nil {
			return err
		}
		if err := b.Cluster.FitsLiving(ctx, r.set, &r.opened.Rec, r.opened.Secrets); err != nil {
			return err
		}
		nodes, err := b.Cluster.NodeNames(ctx)
		if err != nil {
			return err
		}
		if err := b.prove(ctx, &rehearse.Tidy{Machines: nodes}); err != nil {
			return err
		}
	}
	p, err := b.Cluster.PlanRestoreLiving(ctx, from)
	if err != nil {
		return err
	}
	b.only(p)
	b.later = "then apply changes what differs from the document"
	b.carry = func(ctx context.Context, t Terms) (done Done, err error) {
		t.Commit = b.keeping()
		if err := b.Session.CarryOut(ctx, p, t); err != nil {
			return done, err
		}
		done.Changed = true
		first, err := b.Cluster.PlanApply(ctx)
		if err != nil {
			return done, err
		}
		t.Commit, t.Reviewed, t.Question = nil, false, "Let apply change what differs from the document?"
		if _, err := b.Converge(ctx, first, t); err != nil {
			return done, err
		}
		return b.compareVolumes(ctx, done), nil
	}
	return nil
}

// keeping returns the commit of a restore. It stores the document and, if a backup was opened, keeps etcd's snapshot and removes the decrypted files.
func (b *Begun) keeping() func(context.Context) error {
	r := b.restore
	return func(ctx context.Context) error {
		document := b.Record.Document
		if r.opened != nil {
			if err := b.Cluster.KeepSnapshot(r.start); err != nil {
				return err
			}
			if err := r.opened.Remove(); err != nil { // don't leave plaintext around until the cluster is up
				return err
			}
			if !r.living {
				document = r.document
			}
		}
		return b.Commit(ctx, document)
	}
}

// compareVolumes adds to done the volumes on which the cluster and its cloud disagree. A failed comparison only adds a message: the restore succeeded.
func (b *Begun) compareVolumes(ctx context.Context, done Done) Done {
	odd, err := b.Cluster.OddVolumes(ctx)
	if done.Volumes = odd; err != nil {
		done.Said = fmt.Sprintf("Its volumes were not compared with the cloud's: %v\nnaupegos backup volumes %s does that.", err, b.Record.Name)
	}
	return done
}
