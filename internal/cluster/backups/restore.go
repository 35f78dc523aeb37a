package backups

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/laying"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
)

// Restores returns the ID of the backup that the cluster of a record is being restored from, or "".
func Restores(rec *store.Cluster) string {
	if r := env.RestoringBy(memory.NewFacts(rec, nil)); r != nil {
		return r.Set
	}
	return ""
}

// RestoresLiving is Restores for a living cluster.
func RestoresLiving(rec *store.Cluster) bool {
	r := env.RestoringBy(memory.NewFacts(rec, nil))
	return r != nil && r.Living
}

// Restore makes the next plan start etcd from a backup of a Kubernetes release. The caller calls KeepSnapshot before it carries the plan out.
func (c *Keeper) Restore(ctx context.Context, set, kubernetes string, made time.Time) error {
	return c.setRestoring(ctx, env.Restoring{Set: set, Made: made.UTC(), Kubernetes: kubernetes, Run: time.Now().UTC().Format("20060102T150405Z")})
}

func (c *Keeper) setRestoring(ctx context.Context, r env.Restoring) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember the restore")
	}
	return c.Facts.Set(ctx, memory.Restoring, string(data))
}

// SnapshotFile is the local path of the snapshot that etcd is started from, encrypted for the store's identity.
func (c *Keeper) SnapshotFile(r *env.Restoring) string {
	return filepath.Join(c.StateDir, "restoring", c.Name()+"-"+r.Run+".db.age")
}

// KeepSnapshot keeps a local copy of a snapshot until the cluster serves, so that apply can continue after a crash.
func (c *Keeper) KeepSnapshot(file string) error {
	in, err := os.Open(file)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "keep the snapshot")
	}
	defer in.Close() // read only
	return connect.WritePrivate(c.SnapshotFile(c.Restoring()), func(w io.Writer) error {
		sealed, err := store.Seal(c.Store, w)
		if err == nil {
			_, err = io.Copy(sealed, in)
		}
		if err == nil {
			err = sealed.Close()
		}
		return err
	})
}

// DropSnapshot removes the local snapshot, which is not needed once etcd serves.
func (c *Keeper) DropSnapshot() error {
	r := c.Restoring()
	if r == nil {
		return nil
	}
	if err := os.Remove(c.SnapshotFile(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail.Wrap(fail.Internal, err, "remove the snapshot that was restored")
	}
	return nil
}

// Restored forgets the restore of etcd.
func (c *Keeper) Restored(ctx context.Context) error {
	if err := c.DropSnapshot(); err != nil { // a crash may have prevented the removal
		return err
	}
	return c.Facts.Set(ctx, memory.Restoring, "")
}

// LayStep makes the data directory of a control-plane machine's etcd member of the snapshot.
func (c *Keeper) LayStep(name string) *plan.Step {
	r := c.Restoring()
	return &plan.Step{
		ID: "etcd/restore/" + name, Action: plan.Create, Subject: name, Title: "create the data of etcd on " + name + " from the backup", Timeout: env.LayTimeout,
		Reason: "the cluster starts from backup " + r.Set + " of " + r.Made.Format(time.DateTime) + " UTC",
		Run: func(ctx context.Context, p plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err != nil {
				return err
			}
			at := r.Place()
			laid, err := c.Dialer.Run(ctx, h, nil, at.Prepare()...)
			if err != nil || len(laid) > 0 {
				return err
			}
			p.Status("sending the snapshot to %s", name)
			if err := c.sendForLaying(ctx, name, r); err != nil {
				return err
			}
			p.Status("creating the data directory on %s", name)
			_, err = c.Dialer.Run(ctx, h, nil, at.Lay(name, c.Facts.Get(memory.EtcdInitial), c.InitialMembers()[name])...)
			if err != nil {
				return fail.Wrap(fail.KindOf(err), err, "make the data of etcd").At(name)
			}
			return nil
		},
	}
}

// sendForLaying sends a machine the snapshot, and the program that creates a data directory from it.
func (c *Keeper) sendForLaying(ctx context.Context, name string, r *env.Restoring) error {
	sealed, err := os.Open(c.SnapshotFile(r))
	if err != nil {
		return fail.Wrap(fail.NotFound, err, "read the snapshot to restore").Do("naupegos backup restore %s --from %s fetches it again", c.Name(), r.Set)
	}
	defer sealed.Close() // read only
	snapshot, err := store.Unseal(c.Store, sealed)
	if err != nil {
		return err
	}
	if err := c.sendProgram(ctx, name, r.Place(), "etcdutl"); err != nil {
		return err
	}
	return c.sendTool(ctx, name, r.Place(), "snapshot.db", snapshot)
}

// sendProgram sends a machine one of the bundle's programs.
func (c *Keeper) sendProgram(ctx context.Context, name string, at laying.Place, program string) error {
	p, err := c.Current.Binary(program)
	if err != nil {
		return err
	}
	tool, _, err := c.OpenBlob(p.Digest)
	if err != nil {
		return err
	}
	defer tool.Close() // read only
	return c.sendTool(ctx, name, at, program, tool)
}

func (c *Keeper) sendTool(ctx context.Context, name string, at laying.Place, file string, content io.Reader) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.Dialer.Run(ctx, h, content, at.Put(file)...)
	}
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "send %s", file).At(name)
	}
	return nil
}

// Given are the secrets and facts with which a restored cluster begins in a store that does not know it.
type Given struct {
	Secrets map[string][]byte // by name
	Facts   store.Facts
}

// EncryptionOf returns the providers with which the API servers of a record's cluster read Secrets.
func EncryptionOf(rec *store.Cluster, doc *v1alpha1.Cluster) ([]string, error) {
	c := env.Env{Doc: doc, Record: rec, Facts: memory.NewFacts(rec, nil)}
	return c.Encryption()
}

// GenerationsOf returns the generations of authorities and keys that the cluster of a record uses.
func GenerationsOf(rec *store.Cluster) (map[string]pki.Generations, error) {
	c := env.Env{Facts: memory.NewFacts(rec, nil)}
	r, err := c.ToldRotation()
	if err != nil {
		return nil, err
	}
	return c.Generations(r), nil
}
