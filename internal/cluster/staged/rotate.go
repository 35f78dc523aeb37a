package staged

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
)

// Rotate rotates keys (pki.Rotated) from the next plan on. With hold, the former keys stay trusted until FinishRotation. A rotation of the same keys that
// is under way continues; isNew reports whether Rotate began one.
func (c *Staged) Rotate(ctx context.Context, keys []string, hold bool) (isNew bool, _ error) {
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
		return false, fail.New(fail.Refused, "keys of cluster %s are being rotated already (%s)", c.Name(), c.RotationNote()).Do("let that rotation finish first, then try again")
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

// mayRotate returns an error if the issuer of the cluster's certificates does not allow the rotation of these authorities.
func (c *Staged) mayRotate(ctx context.Context, r rotation.Rotation) error {
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

// FinishRotation continues a held rotation. It returns fail.Refused if none is in progress.
func (c *Staged) FinishRotation(ctx context.Context) error {
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

// AbandonRotation makes every part forget the next keys. It returns fail.Refused if they are in use already.
func (c *Staged) AbandonRotation(ctx context.Context) error {
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

// AdvanceRotation moves on to the next phase once everything is in the present one.
func (c *Staged) AdvanceRotation(ctx context.Context) error {
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

// RotationNote describes a rotation in progress; "" without one.
func (c *Staged) RotationNote() string {
	now, err := c.ToldRotation()
	switch {
	case err != nil || now.IsZero():
		return ""
	case c.Held(now):
		return fmt.Sprintf("%s: %s, and the old ones stay trusted until naupegos certs rotate %s --finish", strings.Join(now.Keys(), ", "), now.Words(), c.Name())
	}
	return fmt.Sprintf("%s: not finished; naupegos apply continues, and this phase ends once %s", strings.Join(now.Keys(), ", "), now.Words())
}

// RotationTitle describes the step that ends a phase.
func RotationTitle(now rotation.Rotation) string {
	if now.Phase == rotation.Make {
		return "create the next authorities where the present ones are"
	}
	return "verify that " + now.Words()
}

// RotationAfter describes the phases that follow.
func RotationAfter(now rotation.Rotation, hold bool) (after []string) {
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

// NoStep is for callers that require a plan without steps.
func NoStep(*plan.Step) bool { return false }
