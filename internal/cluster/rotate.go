package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// Authorities and keys are rotated in phases, the next of which begins once everything is in the one before: which everything is told to be in,
// and which it is in, are facts.

// Rotate has keys (pki.Rotated) rotated from the next plan on; hold has the former ones trusted until FinishRotation. A rotation of the same keys
// that is under way goes on; isNew reports whether none was.
func (c *Cluster) Rotate(ctx context.Context, keys []string, hold bool) (isNew bool, _ error) {
	now, err := c.ToldRotation()
	if err != nil {
		return false, err
	}
	begun := rotation.Begin(keys, c.Generation)
	if c.Vault != nil && begun.Has(pki.Authorities()...) {
		begun = begun.Made()
	}
	switch {
	case !c.Facts.Bootstrapped():
		return false, env.ErrNotBootstrapped(c.Name())
	case !now.IsZero() && !slices.Equal(now.Keys(), begun.Keys()), now.Phase == rotation.Abandon:
		return false, fail.New(fail.Refused, "keys of cluster %s are being rotated already (%s)", c.Name(), c.rotationNote()).Do("let that rotation finish first, then try again")
	case now.IsZero() && (c.Moving() || c.Upgrading()):
		return false, fail.New(fail.Refused, "cluster %s is being upgraded", c.Name()).Do("naupegos apply continues the upgrade; then try again")
	}
	if err := c.mayRotate(ctx, begun); err != nil {
		return false, err
	}
	if now.IsZero() {
		if err := c.Facts.Set(ctx, memory.Rotation, begun.String()); err != nil {
			return false, err
		}
	}
	value := ""
	if hold {
		value = "true"
	}
	return now.IsZero(), c.Facts.Set(ctx, memory.RotationHold, value)
}

// mayRotate is nil where whoever signs the cluster's certificates lets us rotate those authorities that are in a rotation.
func (c *Cluster) mayRotate(ctx context.Context, r rotation.Rotation) error {
	if c.Vault == nil || !r.Has(pki.Authorities()...) {
		return nil
	}
	have, err := c.Authorities(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(have, func(name string, _ []byte) bool { return !r.Has(name) })
	return c.Vault.MayRotate(ctx, have)
}

// FinishRotation has a rotation that was held go on. fail.Refused where none is under way.
func (c *Cluster) FinishRotation(ctx context.Context) error {
	now, err := c.ToldRotation()
	switch {
	case err != nil:
		return err
	case now.IsZero():
		return fail.New(fail.Refused, "nothing of cluster %s is being rotated", c.Name())
	}
	if err := c.mayRotate(ctx, now); err != nil {
		return err
	}
	return c.Facts.Set(ctx, memory.RotationHold, "")
}

// AbandonRotation has everything forget the next keys again. fail.Refused where they are in use already.
func (c *Cluster) AbandonRotation(ctx context.Context) error {
	now, err := c.ToldRotation()
	if err != nil {
		return err
	}
	back, err := now.Abandoned()
	if err != nil {
		return err
	}
	return c.Facts.Set(ctx, memory.Rotation, back.String())
}

// advanceRotation moves on to the next phase once everything is in the present one.
func (c *Cluster) advanceRotation(ctx context.Context) error {
	now, err := c.ToldRotation()
	if err != nil {
		return err
	}
	if next := now.Next(); !next.IsZero() && c.Facts.Get(memory.RotationRun) == now.String() && !c.Held(now) {
		if err := c.Facts.Set(ctx, memory.Rotation, next.String()); err != nil {
			return err
		}
	}
	return c.UseKeys(ctx)
}

// rotationNote says where a rotation stands; empty where there is none.
func (c *Cluster) rotationNote() string {
	now, err := c.ToldRotation()
	switch {
	case err != nil || now.IsZero():
		return ""
	case c.Held(now):
		return fmt.Sprintf("%s: %s, and the old ones stay trusted until naupegos certs rotate %s --finish", strings.Join(now.Keys(), ", "), now.Words(), c.Name())
	}
	return fmt.Sprintf("%s: not finished; naupegos apply continues, and this phase ends once %s", strings.Join(now.Keys(), ", "), now.Words())
}

// planRotation ends a phase once everything is in it. Whoever agreed to this step, which tells of the phases that follow, has agreed to them.
func (a *applying) planRotation() error {
	now, err := a.ToldRotation()
	if err != nil || now.IsZero() || now.String() == a.Facts.Get(memory.RotationRun) {
		return err
	}
	if now.Has(pki.KubernetesCA) && now.Phase != rotation.Make && a.o.Recorded { // else it comes anyway
		ph := layout.TellJoiners()
		s := a.phaseStep(a.NamesOf(provider.ControlPlane)[0], ph)
		s.Action, s.Reason = plan.Change, "it names the authorities that joining machines trust"
		a.add(stage.Record, s)
	}
	scan := &rotationScan{Cluster: a.Cluster, now: now, restarted: map[string]bool{}}
	a.add(stage.Advance, &plan.Step{
		ID: "rotation", Action: plan.Change, Subject: "cluster", Title: rotationTitle(now), Details: rotationAfter(now, a.Facts.Is(memory.RotationHold)),
		Reason: "rotating " + strings.Join(now.Keys(), ", ") + ": nothing uses a key before everything else trusts it", Announces: plan.Rolling,
		Timeout: a.Doc.Spec.Timeouts.NodeReady.Duration + tokensRead + env.ObserveTime(a.Doc),
		Run:     scan.end,
	})
	return nil
}

// rotationTitle says what the step that ends a phase does.
func rotationTitle(now rotation.Rotation) string {
	if now.Phase == rotation.Make {
		return "create the next authorities where the present ones are"
	}
	return "verify that " + now.Words()
}

// rotationAfter says in words what follows on a phase.
func rotationAfter(now rotation.Rotation, hold bool) (after []string) {
	for next := now.Next(); !next.IsZero(); next = next.Next() {
		if next.Phase == rotation.Drop && hold {
			after = append(after, "it stays there until naupegos certs rotate --finish")
		}
		after = append(after, "then "+next.Words())
	}
	if now.Phase == rotation.Abandon {
		return nil
	}
	if now.Has(pki.KubernetesCA) {
		after = append(after, "old kubeconfigs stop working in the end: naupegos kubeconfig and handover write new ones, once everything uses the next keys")
	}
	if now.Has(pki.ServiceAccountKeyName) {
		after = append(after, "old tokens stop working in the end: pods get new ones, and those in Secrets are regenerated; copies of them elsewhere become invalid")
	}
	if now.Has(pki.SSHKeyName) {
		after = append(after, "SSH keys that were handed over stop working in the end")
	}
	return after
}

// PlanRenewal is the plan of apply where that has nothing to do but to give machines certificates for those that are due. It is for nobody who
// watches: where apply would do more, or a certificate has expired, it is fail.Refused.
func (c *Cluster) PlanRenewal(ctx context.Context) (*Applied, error) {
	certs, err := c.Certificates(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range certs {
		if now := time.Now(); !i.CA && !now.Before(i.NotAfter) {
			return nil, fail.New(fail.Refused, "cluster %s: the certificate %s expired at %s", c.Name(), i.Name, i.NotAfter.Format(time.DateTime)).
				Do("naupegos apply gives the machines another one")
		}
	}
	c.PKI.HoldRenewals(true)
	rest, err := c.PlanApply(ctx)
	c.PKI.HoldRenewals(false)
	c.UseAPI(nil)
	if err == nil {
		err = c.nothingElse(rest, "certificates", noStep)
	}
	switch {
	case err != nil:
		return nil, err
	case rest.More:
		return nil, fail.Wrap(fail.NotReady, cmp.Or(rest.Observed.APIErr, rest.Observed.EtcdErr), "cluster %s can't be seen as a whole", c.Name()).
			Do("naupegos apply brings what is down back, and renews the certificates")
	}
	return c.planApply(ctx, "renew", c.Decided())
}

// noStep is for who wants that apply has nothing to do.
func noStep(*plan.Step) bool { return false }
