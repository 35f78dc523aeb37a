package backups

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/laying"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// ConsentRestore is the consent to replace the data of a running cluster by a backup.
const ConsentRestore = "replace-data"

const restoredStep = "etcd/restored"

// FitsLiving refuses a set whose data this living cluster could not read or would not trust.
func (c *Keeper) FitsLiving(ctx context.Context, set *backup.Set, rec *store.Cluster, secrets map[string][]byte) error {
	again := func(format string, args ...any) error {
		return fail.New(fail.Refused, "backup %s does not fit the living cluster: %s", set.ID, fmt.Sprintf(format, args...)).At(c.Name()).
			Do("naupegos destroy %s, then naupegos backup restore %s --from %s rebuilds the cluster as it was then", c.Name(), c.Name(), set.ID)
	}
	switch now := c.Told(); {
	case rec.ID != c.Record.ID:
		return again("it is of another cluster of this name, %s", rec.ID)
	case c.Upgrading() || now.Machines != set.Kubernetes:
		return again("it is of Kubernetes %s, and the cluster runs, or is upgraded to, another release", set.Kubernetes)
	case c.Rotating() || c.EncryptionChanging():
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
			return again("%s has changed since", name)
		}
	}
	return nil
}

// PlanRestoreLiving plans to replace the data of a running cluster's etcd, on all members, by a backup set. A nil set continues a restore that was begun.
func (c *Keeper) PlanRestoreLiving(ctx context.Context, set *backup.Set) (*plan.Plan, error) {
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
	p.Steps, p.Warnings, err = c.RestoreLivingSteps(ctx, o, set, answers, highest)
	return p, err
}

// RestoreLivingSteps lists the steps; highest is the highest revision of all members, 0 if none answers.
func (c *Keeper) RestoreLivingSteps(ctx context.Context, o *observe.Observed, set *backup.Set, answers map[string]bool, highest int64) ([]*plan.Step, []string, error) {
	var graph plan.Graph
	if set != nil {
		r := env.Restoring{Set: set.ID, Made: set.CreatedAt, Kubernetes: set.Kubernetes, Run: time.Now().UTC().Format("20060102T150405Z"), Living: true}
		r.Bump = laying.Beyond(highest)
		if err := c.setRestoring(ctx, r); err != nil {
			return nil, nil, err
		}
		if o.EtcdErr == nil {
			graph.Add(stage.Prepare, c.BackupStep("before backup "+set.ID+" is restored", nil))
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
			graph.Add(stage.RollWorkers, c.OnMachine("kubelet/restart", plan.Change, s.Name, "restart kubelet on "+s.Name, "it registers again, and stops pods that no longer exist", "systemctl", "restart", "kubelet.service"))
		}
	}
	graph.Add(stage.Forget, c.endRestore())
	steps, err := graph.Seal(stage.RestoreLivingRules)
	return steps, warnings, err
}

// restoreMember stops the control plane on a machine, with that on all others, and starts it from the snapshot.
func (c *Keeper) restoreMember(graph *plan.Graph, s wanted.Slot, r *env.Restoring) {
	stop := c.OnMachine("etcd/halt", plan.Change, s.Name, "stop the control plane on "+s.Name, "no server may keep data that the backup does not hold", r.Place().Halt()...)
	stop.Consent, stop.Removes = ConsentRestore, true
	stop.Details = []string{"everything written since " + r.Made.UTC().Format(time.DateTime) + " UTC is lost", "etcd's current data is kept on the machine"}
	graph.Add(stage.Clean, stop)
	lay := c.LayStep(s.Name)
	graph.Add(stage.Bootstrap, lay)
	graph.Add(stage.Bootstrap, c.ConfigureStep(s, plan.Change, "etcd and the API server start there", nil), plan.After(lay.ID)...)
	// The machine remembers that its data is in place until the restore ends.
	graph.Add(stage.Forget, c.OnMachine("etcd/tidy", plan.Change, s.Name, "remove the restore tools from "+s.Name, "the data is in place", r.Place().Tidy()...), plan.After(restoredStep)...)
	graph.Add(stage.Serve, &plan.Step{
		ID: "serve/" + s.Name, Action: plan.Wait, Subject: s.Name, Title: "wait for etcd and the API server on " + s.Name, Reason: "kubelets connect to it",
		Run: func(ctx context.Context, _ plan.Progress) error {
			if err := c.WaitEtcd(ctx); err != nil {
				return err
			}
			return c.WaitServer(ctx, s.Name)
		},
	})
}

// endRestore deletes the facts of the restore, and facts about objects that may no longer exist: apply observes these again.
func (c *Keeper) endRestore() *plan.Step {
	return &plan.Step{
		ID: restoredStep, Action: plan.Change, Subject: "cluster", Title: "finish the restore", Reason: "apply does what else the document says",
		Run: func(ctx context.Context, _ plan.Progress) error {
			for _, kind := range []memory.Kind{memory.Recorded, memory.BackupLaid} {
				if err := c.Facts.Set(ctx, kind, ""); err != nil {
					return err
				}
			}
			return c.Restored(ctx)
		},
	}
}
