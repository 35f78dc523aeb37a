package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/laying"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// Restores returns the ID of the backup that the cluster of a record is being restored from; empty where it is not.
func Restores(rec *store.Cluster) string {
	if r := env.RestoringBy(memory.NewFacts(rec, nil)); r != nil {
		return r.Set
	}
	return ""
}

// RestoresLiving is Restores where the cluster lives.
func RestoresLiving(rec *store.Cluster) bool {
	r := env.RestoringBy(memory.NewFacts(rec, nil))
	return r != nil && r.Living
}

// Restore has the next plan start etcd from a backup of a release of Kubernetes. KeepSnapshot has to follow before that is carried out.
func (c *Cluster) Restore(ctx context.Context, set, kubernetes string, made time.Time) error {
	return c.setRestoring(ctx, env.Restoring{Set: set, Made: made.UTC(), Kubernetes: kubernetes, Run: time.Now().UTC().Format("20060102T150405Z")})
}

func (c *Cluster) setRestoring(ctx context.Context, r env.Restoring) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember what is restored")
	}
	return c.Facts.Set(ctx, memory.Restoring, string(data))
}

// snapshotFile is where the snapshot lies on this side that etcd is started from, encrypted for the store's identity.
func (c *Cluster) snapshotFile(r *env.Restoring) string {
	return filepath.Join(c.StateDir, "restoring", c.Name()+"-"+r.Run+".db.age")
}

// KeepSnapshot keeps a snapshot on this side until the cluster serves, so that apply goes on after a crash.
func (c *Cluster) KeepSnapshot(file string) error {
	in, err := os.Open(file)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "keep the snapshot")
	}
	defer in.Close() // read only
	return connect.WritePrivate(c.snapshotFile(c.Restoring()), func(w io.Writer) error {
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

// dropSnapshot removes on this side what etcd was started from: it serves.
func (c *Cluster) dropSnapshot() error {
	r := c.Restoring()
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
	return c.Facts.Set(ctx, memory.Restoring, "")
}

// layStep makes the data directory of a control-plane machine's etcd member of the snapshot.
func (c *Cluster) layStep(name string) *plan.Step {
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

// sendForLaying sends a machine the snapshot, and the program that makes a data directory of it.
func (c *Cluster) sendForLaying(ctx context.Context, name string, r *env.Restoring) error {
	sealed, err := os.Open(c.snapshotFile(r))
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
func (c *Cluster) sendProgram(ctx context.Context, name string, at laying.Place, program string) error {
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

func (c *Cluster) sendTool(ctx context.Context, name string, at laying.Place, file string, content io.Reader) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.Dialer.Run(ctx, h, content, at.Put(file)...)
	}
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "send %s", file).At(name)
	}
	return nil
}

// Given is what a cluster that the store does not know is begun with: it comes back as what it was.
type Given struct {
	Secrets map[string][]byte // by name
	Facts   store.Facts
}

// EncryptionOf is by what API servers of the cluster of a record read Secrets.
func EncryptionOf(rec *store.Cluster, doc *v1alpha1.Cluster) ([]string, error) {
	c := env.Env{Doc: doc, Record: rec, Facts: memory.NewFacts(rec, nil)}
	return c.Encryption()
}

// GenerationsOf says which generations of its authorities and keys the cluster of a record uses.
func GenerationsOf(rec *store.Cluster) (map[string]pki.Generations, error) {
	c := env.Env{Facts: memory.NewFacts(rec, nil)}
	r, err := c.ToldRotation()
	if err != nil {
		return nil, err
	}
	return c.Generations(r), nil
}

// ConsentRestore names the consent to putting a backup into the place of what a living cluster holds.
const ConsentRestore = "replace-data"

const restoredStep = "etcd/restored"

// FitsLiving refuses a set whose data this cluster, as it lives, could not read or would not trust.
func (c *Cluster) FitsLiving(ctx context.Context, set *backup.Set, rec *store.Cluster, secrets map[string][]byte) error {
	again := func(format string, args ...any) error {
		return fail.New(fail.Refused, "backup %s does not fit the living cluster: %s", set.ID, fmt.Sprintf(format, args...)).At(c.Name()).
			Do("naupegos destroy %s, then naupegos backup restore %s --from %s rebuilds the cluster as it was then", c.Name(), c.Name(), set.ID)
	}
	switch now := c.Told(); {
	case rec.ID != c.Record.ID:
		return again("it is of another cluster of this name, %s", rec.ID)
	case c.Upgrading() || now.Machines != set.Kubernetes:
		return again("it is of Kubernetes %s, and the cluster runs, or goes to, another release", set.Kubernetes)
	case c.Rotating() || c.encryptionChanging():
		return again("authorities or keys are being rotated")
	}
	keys := func(all store.Facts) store.Facts {
		out := memory.OfKeys(all)
		maps.DeleteFunc(out, func(f store.Fact, _ string) bool { return strings.HasPrefix(f.Kind, "wireguard") })
		return out
	}
	if !maps.Equal(keys(rec.Facts), keys(c.Facts.All())) {
		return again("authorities or keys were rotated since")
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if !pki.IsRoot(name) {
			continue
		}
		if now, err := c.Secrets.Get(ctx, name); err != nil || !bytes.Equal(now, secrets[name]) {
			return again("%s is not what it was then", name)
		}
	}
	return nil
}

var restoreLivingRules = []plan.Rule{
	{Stage: stagePrepare},
	{Stage: stageClean, Waits: []plan.Stage{stagePrepare}},
	{Stage: stageBootstrap, Waits: []plan.Stage{stageClean}},
	{Stage: stageServe, Waits: []plan.Stage{stageBootstrap}},
	{Stage: stageRollWorkers, Waits: []plan.Stage{stageServe}},
	{Stage: stageForget, Waits: []plan.Stage{stageRollWorkers}},
}

// PlanRestoreLiving plans to put a set into the place of what the cluster's etcd holds, on all of its members; a nil set goes on with what was begun.
// KeepSnapshot has to follow before it is carried out.
func (c *Cluster) PlanRestoreLiving(ctx context.Context, set *backup.Set) (*plan.Plan, error) {
	o, err := c.Observe(ctx)
	if err != nil {
		return nil, err
	}
	answers := map[string]bool{}
	for _, m := range o.Inventory.Machines {
		answers[m.Name] = m.State == provider.Running && m.Role != provider.Gateway && c.answers(ctx, m.Name)
	}
	highest := int64(0)
	if err := c.WithEtcd(ctx, func(e *etcd.Client) error {
		for _, r := range e.Revisions(ctx) {
			highest = max(highest, r)
		}
		return nil
	}); err != nil && fail.KindOf(err) != fail.Unreachable {
		return nil, err
	}
	p := &plan.Plan{Verb: "backup restore", Cluster: c.Name()}
	p.Steps, p.Warnings, err = c.restoreLivingSteps(ctx, o, set, answers, highest)
	return p, err
}

// restoreLivingSteps lists the steps; highest is the last revision that a member tells of, 0 where none does.
func (c *Cluster) restoreLivingSteps(ctx context.Context, o *observe.Observed, set *backup.Set, answers map[string]bool, highest int64) ([]*plan.Step, []string, error) {
	var graph plan.Graph
	if set != nil {
		r := env.Restoring{Set: set.ID, Made: set.CreatedAt, Kubernetes: set.Kubernetes, Run: time.Now().UTC().Format("20060102T150405Z"), Living: true}
		r.Bump = laying.Beyond(highest)
		if err := c.setRestoring(ctx, r); err != nil {
			return nil, nil, err
		}
		if o.EtcdErr == nil {
			graph.Add(stagePrepare, c.backupStep("before backup "+set.ID+" is restored", nil))
		}
	}
	r := c.Restoring()
	var initial, warnings []string
	for _, s := range o.Want {
		addr, err := c.Address(ctx, s.Name)
		switch {
		case s.IsControlPlane() && (err != nil || !answers[s.Name]):
			return nil, nil, fail.New(fail.Refused, "control-plane machine %s does not answer: its etcd could go on with the former data", s.Name).At(c.Name()).
				Do("start it, or have apply replace it; or naupegos destroy %s and restore then", c.Name())
		case s.IsControlPlane():
			initial = append(initial, s.Name+"="+connect.PeerURL(addr))
		case s.Role != provider.Gateway && !answers[s.Name]:
			warnings = append(warnings, s.Name+" does not answer: restart its kubelet once it does")
		}
	}
	slices.Sort(initial)
	if err := c.Facts.Set(ctx, memory.EtcdInitial, strings.Join(initial, ",")); err != nil {
		return nil, nil, err
	}
	if err := c.forgetJoins(ctx); err != nil {
		return nil, nil, err
	}
	for _, s := range o.Want {
		switch {
		case s.IsControlPlane():
			c.restoreMember(&graph, s, r)
			fallthrough
		case s.Role != provider.Gateway && answers[s.Name]:
			graph.Add(stageRollWorkers, c.OnMachine("kubelet/restart", plan.Change, s.Name, "restart kubelet on "+s.Name, "it registers again, and stops pods that no longer exist", "systemctl", "restart", "kubelet.service"))
		}
	}
	graph.Add(stageForget, c.endRestore())
	steps, err := graph.Seal(restoreLivingRules)
	return steps, warnings, err
}

// restoreMember stops the control plane on a machine, with that on all others, and starts it from the snapshot.
func (c *Cluster) restoreMember(graph *plan.Graph, s wanted.Slot, r *env.Restoring) {
	stop := c.OnMachine("etcd/halt", plan.Change, s.Name, "stop the control plane on "+s.Name, "no server may keep data that the backup does not hold", r.Place().Halt()...)
	stop.Consent, stop.Removes = ConsentRestore, true
	stop.Details = []string{"everything written since " + r.Made.UTC().Format(time.DateTime) + " UTC is lost", "etcd's current data is kept on the machine"}
	graph.Add(stageClean, stop)
	lay := c.layStep(s.Name)
	graph.Add(stageBootstrap, lay)
	graph.Add(stageBootstrap, c.ConfigureStep(s, plan.Change, "etcd and the API server start there", nil), plan.After(lay.ID)...)
	// That the data is laid is known on the machine until nobody goes on with this any more.
	graph.Add(stageForget, c.OnMachine("etcd/tidy", plan.Change, s.Name, "remove the restore tools from "+s.Name, "the data is in place", r.Place().Tidy()...), plan.After(restoredStep)...)
	graph.Add(stageServe, &plan.Step{
		ID: "serve/" + s.Name, Action: plan.Wait, Subject: s.Name, Title: "wait for etcd and the API server on " + s.Name, Reason: "kubelets connect to it",
		Run: func(ctx context.Context, _ plan.Progress) error {
			if err := c.WaitEtcd(ctx); err != nil {
				return err
			}
			return c.WaitServer(ctx, s.Name)
		},
	})
}

// endRestore forgets what only a restore needs, and what is remembered of objects that may not be there any more: apply looks again.
func (c *Cluster) endRestore() *plan.Step {
	return &plan.Step{
		ID: restoredStep, Action: plan.Change, Subject: "cluster", Title: "finish the restore", Reason: "apply does what else the document says",
		Run: func(ctx context.Context, _ plan.Progress) error {
			for _, kind := range []memory.Kind{memory.Recorded, memory.BackupLaid} {
				if err := c.Facts.Set(ctx, kind, ""); err != nil {
					return err
				}
			}
			return c.restored(ctx)
		},
	}
}
