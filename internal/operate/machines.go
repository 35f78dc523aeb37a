package operate

import (
	"context"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

// Drain says how nodes are drained.
type Drain struct {
	TimeoutSeconds int  `json:"timeoutSeconds,omitempty" minimum:"0" maximum:"86400" doc:"Time limit for draining each node; 0: the document's spec.timeouts.drain"`
	DeleteEmptyDir bool `json:"deleteEmptyDir,omitempty" doc:"Also evict pods with emptyDir volumes: their content is lost"`
	Force          bool `json:"force,omitempty" doc:"Also evict pods without a controller: they are lost"`
	GraceSeconds   int  `json:"graceSeconds,omitempty" minimum:"0" maximum:"86400" doc:"Grace period of each pod, in place of its own; 0: its own"`
}

func planRemove(ctx context.Context, b *Begun) (err error) {
	b.before = func(ctx context.Context) error { return b.Cluster.Decide(ctx, wanted.Remove, b.Asked.Machines...) }
	b.First, err = b.Cluster.PlanRemove(ctx, b.Asked.Machines...)
	return err
}

func planReplace(ctx context.Context, b *Begun) (err error) {
	b.before = func(ctx context.Context) error { return b.Cluster.Decide(ctx, wanted.Replace, b.Asked.Machines...) }
	b.First, err = b.Cluster.PlanReplace(ctx, b.Asked.Machines...)
	return err
}

func planCordon(ctx context.Context, b *Begun) error {
	p, err := b.Cluster.PlanCordon(ctx, b.Asked.Verb, b.Asked.Machines, b.Asked.Verb == "node cordon")
	if err == nil {
		b.only(p)
	}
	return err
}

func planDrain(ctx context.Context, b *Begun) error {
	o := kube.DrainOptions{}
	if d := b.Asked.Drain; d != nil {
		o = kube.DrainOptions{Timeout: time.Duration(d.TimeoutSeconds) * time.Second, GracePeriod: time.Duration(d.GraceSeconds) * time.Second, Force: d.Force, DeleteEmptyDir: d.DeleteEmptyDir}
	}
	p, err := b.Cluster.PlanDrain(ctx, b.Asked.Verb, b.Asked.Machines, o)
	if err == nil {
		b.only(p)
	}
	return err
}

// planPower plans to switch the named machines, or all if none is named, through a sequence of provider.Power states.
func planPower(ctx context.Context, b *Begun) error {
	states := map[string][]string{"machine start": {"on"}, "machine stop": {"off"}, "machine kill": {"kill"}, "machine reboot": {"off", "on"}}[b.Asked.Verb]
	machines, err := b.Cluster.CheckMachines(ctx, b.Asked.Machines)
	if err != nil {
		return err
	}
	p, err := b.Cluster.PlanPower(ctx, b.Asked.Verb, machines, states)
	if err != nil {
		return err
	}
	b.Found.Names = machines
	if states[0] != "on" {
		if err := b.disturb(ctx, p, machines); err != nil {
			return err
		}
	}
	b.only(p)
	carry := b.carry
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		done, err := carry(ctx, t)
		done.Names = machines
		return done, err
	}
	return nil
}

// disturb adds warnings about the outage while machines are off. If etcd would or may lose its quorum, steps other than power/on require consent.
func (b *Begun) disturb(ctx context.Context, p *plan.Plan, machines []string) error {
	o, err := b.Cluster.Outage(ctx, machines)
	if err != nil {
		return err
	}
	p.Warnings = append(p.Warnings, o.Words...)
	if o.Quorum == nil {
		return nil
	}
	for _, s := range p.Steps {
		if !strings.HasPrefix(s.ID, "power/on/") {
			s.Consent = nodes.ConsentQuorum
		}
	}
	return nil
}

func planBackup(_ context.Context, b *Begun) error {
	var done Done
	p, err := b.Cluster.PlanBackup("as requested", func(made *backup.Set) { done.Backup, done.Where = made, made.Where() })
	if err != nil {
		return err
	}
	b.only(p)
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		err := b.Session.CarryOut(ctx, p, t)
		done.Changed = err == nil
		return done, err
	}
	return nil
}

func planPrune(ctx context.Context, b *Begun) error {
	p, err := b.Cluster.PlanPrune(ctx)
	if err != nil {
		return err
	}
	b.only(p)
	b.Idle = p.Empty()
	return nil
}

// planTest plans to prove that the cluster works. A failed proof is a result, not an error.
func planTest(_ context.Context, b *Begun) error {
	var done Done
	p, err := b.Cluster.PlanTest(time.Duration(b.Asked.Seconds)*time.Second, func(proofs []addons.Proof) { done.Proofs = proofs })
	if err != nil {
		return err
	}
	b.only(p)
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		err := b.Session.CarryOut(ctx, p, t)
		return done, err
	}
	return nil
}
