package cluster

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/rotation"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// Authorities and keys are rotated in phases. A phase begins once every component is in the previous one. Facts record the phase that components
// are configured for, and the phase that they are in.

// planRotation ends a phase once every component is in it. Consent to this step, which lists the following phases, covers them, too.
func (a *applying) planRotation() error {
	now, err := a.ToldRotation()
	if err != nil || now.IsZero() || now.String() == a.Facts.Get(memory.RotationRun) {
		return err
	}
	if now.Has(pki.KubernetesCA) && now.Phase != rotation.Make && a.o.Recorded { // else it comes anyway
		ph := layout.TellJoiners()
		s := a.PhaseStep(a.NamesOf(provider.ControlPlane)[0], ph)
		s.Action, s.Reason = plan.Change, "it names the authorities that joining machines trust"
		a.add(stage.Record, s)
	}
	scan := &staged.RotationScan{Staged: a.Staged, Now: now, Restarted: map[string]bool{}}
	a.add(stage.Advance, &plan.Step{
		ID: "rotation", Action: plan.Change, Subject: "cluster", Title: staged.RotationTitle(now), Details: staged.RotationAfter(now, a.Facts.Is(memory.RotationHold)),
		Reason: "rotating " + strings.Join(now.Keys(), ", ") + ": nothing uses a key before everything else trusts it", Announces: plan.Rolling,
		Timeout: a.Doc.Spec.Timeouts.NodeReady.Duration + staged.TokensRead + env.ObserveTime(a.Doc),
		Run:     scan.End,
	})
	return nil
}

// PlanRenewal plans only new certificates in place of those that are due. It runs unattended: it returns fail.Refused if apply would do more, or if a
// certificate has expired.
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
		err = c.nothingElse(rest, "certificates", staged.NoStep)
	}
	switch {
	case err != nil:
		return nil, err
	case rest.More:
		return nil, fail.Wrap(fail.NotReady, cmp.Or(rest.Observed.APIErr, rest.Observed.EtcdErr), "cluster %s can't be seen as a whole", c.Name()).
			Do("naupegos apply repairs it, and renews the certificates")
	}
	return c.planApply(ctx, "renew", c.Decided())
}
