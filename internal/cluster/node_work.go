package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// outdated returns the machines that need another system, by name; none if their provider does not support that.
func (c *Cluster) outdated(ctx context.Context, opts UpdateOptions) (map[string]provider.Newer, error) {
	if p, ok := c.Prov.(provider.Renewer); ok && !opts.RebootOnly {
		return p.Outdated(ctx)
	}
	return nil, nil
}

// systemStep installs another system on a machine. The fact that a reboot was requested outlives the restart.
func (u *updating) systemStep(s wanted.Slot, seen look) *plan.Step {
	return &plan.Step{
		ID: "system/" + s.Name, Action: plan.Change, Subject: s.Name, Rolling: true, Title: "replace the system image of " + s.Name, Reason: seen.newer.Why,
		Details: []string{"it is written to the inactive slot, and the machine restarts; if the new system does not reach its server, the machine returns to the old one"},
		Timeout: seen.newer.Within,
		Run: func(ctx context.Context, p plan.Progress) error {
			if u.Facts.Of(memory.Rebooting, s.Name) == "" {
				if err := u.Facts.SetOf(ctx, memory.Rebooting, s.Name, seen.BootID); err != nil {
					return err
				}
			}
			return u.Prov.(provider.Renewer).Renew(ctx, s.Name, p) //nolint:forcetypeassert // else no machine is outdated
		},
	}
}
