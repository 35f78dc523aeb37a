package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/laying"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// restoring is what etcd is started from again: remembered until the cluster is as its document says, so that the same command goes on until then.
type restoring struct {
	Set        string    `json:"set"`        // the backup's ID
	Made       time.Time `json:"made"`       // when the backup was made
	Kubernetes string    `json:"kubernetes"` // the release that it is of
	Run        string    `json:"run"`        // tells this restore from others of the same backup
}

// restoring returns what etcd is started from again; nil where it is not.
func (c *Cluster) restoring() *restoring { return restoringBy(c.facts) }

func restoringBy(f *memory.Facts) *restoring {
	var r restoring
	if json.Unmarshal([]byte(f.Get(memory.Restoring)), &r) != nil { // also where there is none
		return nil
	}
	return &r
}

// Restores returns the ID of the backup that the cluster of a record is being restored from; empty where it is not.
func Restores(rec *store.Cluster) string {
	if r := restoringBy(memory.NewFacts(rec, nil)); r != nil {
		return r.Set
	}
	return ""
}

// Restore has the next plan start etcd from a backup of a release of Kubernetes. KeepSnapshot has to follow before that is carried out.
func (c *Cluster) Restore(ctx context.Context, set, kubernetes string, made time.Time) error {
	data, err := json.Marshal(restoring{Set: set, Made: made.UTC(), Kubernetes: kubernetes, Run: time.Now().UTC().Format("20060102T150405Z")})
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember what is restored")
	}
	return c.facts.Set(ctx, memory.Restoring, string(data))
}

// snapshotFile is where the snapshot lies on this side that etcd is started from, encrypted for the store's identity.
func (c *Cluster) snapshotFile(r *restoring) string {
	return filepath.Join(c.stateDir, "restoring", c.Name()+"-"+r.Run+".db.age")
}

// KeepSnapshot keeps a snapshot on this side until the cluster serves, so that apply goes on after a crash.
func (c *Cluster) KeepSnapshot(file string) error {
	in, err := os.Open(file)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "keep the snapshot")
	}
	defer in.Close() // read only
	return WritePrivate(c.snapshotFile(c.restoring()), func(w io.Writer) error {
		sealed, err := store.Seal(c.store, w)
		if err == nil {
			_, err = io.Copy(sealed, in)
		}
		if err == nil {
			err = sealed.Close()
		}
		return err
	})
}

// dropSnapshot removes on this side what etcd was started from: it serves.
func (c *Cluster) dropSnapshot() error {
	r := c.restoring()
	if r == nil {
		return nil
	}
	if err := os.Remove(c.snapshotFile(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail.Wrap(fail.Internal, err, "remove the snapshot that was restored")
	}
	return nil
}

// restored forgets what etcd was started from.
func (c *Cluster) restored(ctx context.Context) error {
	if err := c.dropSnapshot(); err != nil { // a crash may have kept it from going
		return err
	}
	return c.facts.Set(ctx, memory.Restoring, "")
}

// layTimeout bounds sending a snapshot to a machine and making a data directory of it.
const layTimeout = 20 * time.Minute

// place is where on a machine a restore keeps what it needs.
func (r *restoring) place() laying.Place {
	return laying.On("/var/lib/naupegos/restoring/"+r.Run, r.Run)
}

// layStep makes the data directory of a control-plane machine's etcd member of the snapshot.
func (c *Cluster) layStep(name string) *plan.Step {
	r := c.restoring()
	return &plan.Step{
		ID: "etcd/restore/" + name, Action: plan.Create, Subject: name, Title: "make the data of etcd on " + name + " of the backup", Timeout: layTimeout,
		Reason: "the cluster starts from backup " + r.Set + " of " + r.Made.Format(time.DateTime) + " UTC",
		Run: func(ctx context.Context, p plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err != nil {
				return err
			}
			at := r.place()
			laid, err := c.dialer.Run(ctx, h, nil, at.Prepare()...)
			if err != nil || len(laid) > 0 {
				return err
			}
			p.Status("sending the snapshot to %s", name)
			if err := c.sendForLaying(ctx, name, r); err != nil {
				return err
			}
			p.Status("making the data directory on %s", name)
			_, err = c.dialer.Run(ctx, h, nil, at.Lay(name, c.facts.Get(memory.EtcdInitial), c.initialMembers()[name])...)
			if err != nil {
				return fail.Wrap(fail.KindOf(err), err, "make the data of etcd").At(name)
			}
			return nil
		},
	}
}

// sendForLaying sends a machine the snapshot, and the program that makes a data directory of it.
func (c *Cluster) sendForLaying(ctx context.Context, name string, r *restoring) error {
	sealed, err := os.Open(c.snapshotFile(r))
	if err != nil {
		return fail.Wrap(fail.NotFound, err, "read the snapshot to restore").Do("naupegos backup restore %s --from %s fetches it again", c.Name(), r.Set)
	}
	defer sealed.Close() // read only
	snapshot, err := store.Unseal(c.store, sealed)
	if err != nil {
		return err
	}
	if err := c.sendProgram(ctx, name, r.place(), "etcdutl"); err != nil {
		return err
	}
	return c.sendTool(ctx, name, r.place(), "snapshot.db", snapshot)
}

// sendProgram sends a machine one of the bundle's programs.
func (c *Cluster) sendProgram(ctx context.Context, name string, at laying.Place, program string) error {
	p, err := c.bundle.Binary(program)
	if err != nil {
		return err
	}
	tool, _, err := c.openBlob(p.Digest)
	if err != nil {
		return err
	}
	defer tool.Close() // read only
	return c.sendTool(ctx, name, at, program, tool)
}

func (c *Cluster) sendTool(ctx context.Context, name string, at laying.Place, file string, content io.Reader) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.dialer.Run(ctx, h, content, at.Put(file)...)
	}
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "send %s", file).At(name)
	}
	return nil
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
