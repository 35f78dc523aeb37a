package observe

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/filter"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/render"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/remote"
)

// Configure configures one machine, or with dryRun asks its agent for the changes.
func (c *Observer) Configure(ctx context.Context, s wanted.Slot, dryRun bool, p plan.Progress) (machine.Report, error) {
	return c.configure(ctx, c.Renderer, make(chan struct{}, 1), s, dryRun, p)
}

// configure renders with r, while rendering has room.
func (c *Observer) configure(ctx context.Context, r *render.Renderer, rendering chan struct{}, s wanted.Slot, dryRun bool, p plan.Progress) (machine.Report, error) {
	h, err := c.Host(ctx, s.Name)
	if err != nil {
		return machine.Report{}, err
	}
	status(p, "asking %s what it is", s.Name)
	answered := false
	report, err := c.Dialer.Apply(ctx, h, func(f machine.Facts) (machine.Config, error) {
		answered = true
		select {
		case rendering <- struct{}{}:
			defer func() { <-rendering }()
		case <-ctx.Done():
			return machine.Config{}, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "render the configuration").At(s.Name)
		}
		return c.configFor(ctx, r, s, f, dryRun)
	}, remote.ApplyOptions{
		DryRun: dryRun, Blob: c.OpenBlob,
		Progress: func(text string) { status(p, "%s", text) },
	})
	if err != nil && !answered {
		err = c.NeverReached(s, err)
	}
	return report, err
}

// configFor returns the configuration of a machine that has just reported its facts, after it has checked and stored them.
func (c *Observer) configFor(ctx context.Context, r *render.Renderer, s wanted.Slot, f machine.Facts, dryRun bool) (machine.Config, error) {
	if err := c.fit(s, f); err != nil {
		return machine.Config{}, err
	}
	if err := c.RememberFacts(ctx, s, f); err != nil {
		return machine.Config{}, err
	}
	cfg, err := r.Config(ctx, s, f)
	if err != nil || dryRun {
		return cfg, err
	}
	return cfg, c.RememberHost(ctx, s.Name)
}

// RememberFacts stores the facts of a machine that the whole cluster depends on.
func (c *Observer) RememberFacts(ctx context.Context, s wanted.Slot, f machine.Facts) error {
	if f.Container && !c.Prov.Traits().SharedKernel { // of local machines it is known beforehand
		if err := c.Facts.Set(ctx, memory.SharedKernel, "true"); err != nil {
			return err
		}
	}
	if first := c.NamesOf(provider.ControlPlane); len(first) > 0 && first[0] == s.Name {
		return c.Facts.Set(ctx, memory.CgroupVersion, strconv.Itoa(f.CgroupVersion))
	}
	return nil
}

// RememberHost notes, before anything is put on it, that a host given by address is in use.
func (c *Observer) RememberHost(ctx context.Context, name string) error {
	if !c.Prov.Traits().Given {
		return nil
	}
	m, err := c.Prov.Machine(ctx, name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "remember host %s", name)
	}
	return c.Facts.SetOf(ctx, memory.Host, name, string(data))
}

// ConfigureStep returns the step that configures one machine. seen, which may be nil, contains the changes.
func (c *Observer) ConfigureStep(s wanted.Slot, action plan.Action, reason string, seen *Seen) *plan.Step {
	return &plan.Step{
		ID: ConfigureID(s.Name), Action: action, Subject: s.Name, Reason: reason, Details: Details(seen), Deltas: Deltas(seen),
		Title: "configure " + string(s.Role) + " " + s.Name,
		Run: func(ctx context.Context, p plan.Progress) error {
			_, err := c.Configure(ctx, s, false, p)
			return err
		},
	}
}

// OnMachine is a step that runs a command on a machine.
func (c *Observer) OnMachine(id string, action plan.Action, name, title, reason string, command ...string) *plan.Step {
	return &plan.Step{
		ID: id + "/" + name, Action: action, Subject: name, Title: title, Reason: reason, Timeout: env.LayTimeout,
		Run: func(ctx context.Context, _ plan.Progress) error {
			h, err := c.Host(ctx, name)
			if err == nil {
				_, err = c.Dialer.Run(ctx, h, nil, command...)
			}
			return err
		},
	}
}

// IntroduceStep adds the address of a new machine to the configuration of the others: the control plane approves no serving certificate for an
// unknown address, and without one the API returns no logs of the pods there.
func (c *Observer) IntroduceStep(s wanted.Slot) *plan.Step {
	return &plan.Step{
		ID: "introduce/" + s.Name, Action: plan.Change, Subject: s.Name, Title: "tell the other machines the address of " + s.Name,
		Reason: "its address is known only after its creation",
		Run: func(ctx context.Context, p plan.Progress) error {
			c.introducing.Lock()
			defer c.introducing.Unlock()
			addr, err := c.Address(ctx, s.Name)
			if err != nil {
				return err
			}
			return Introduce(c.Known(), s.Name, func(other wanted.Slot) error {
				if c.Fenced(other.Role) {
					if err := c.LetIn(ctx, other.Name, []string{"admit", filter.Table, filter.Visitors, addr}); err != nil {
						return err
					}
				}
				if !other.IsControlPlane() {
					return nil
				}
				return Quietly(func(dryRun bool) (machine.Report, error) { return c.Configure(ctx, other, dryRun, p) })
			})
		},
	}
}

// Introduce updates all nodes but one, one after another. Nodes that do not exist yet, or don't answer, are updated when they are configured.
func Introduce(all []wanted.Slot, name string, tell func(wanted.Slot) error) error {
	for _, other := range all {
		if other.Name == name || other.Role == provider.Gateway {
			continue
		}
		err := tell(other)
		if kind := fail.KindOf(err); err != nil && kind != fail.Unreachable && kind != fail.NotReady && kind != fail.NotFound {
			return err
		}
	}
	return nil
}

// Quietly changes a machine unless the change restarts servers that others depend on: only a plan that names the restart does that.
func Quietly(configure func(dryRun bool) (machine.Report, error)) error {
	r, err := configure(true)
	if err != nil || len(r.Changes) == 0 || Disruptive(&r) {
		return err
	}
	_, err = configure(false)
	return err
}

// ConfigureID is the ID of the step that configures a machine.
func ConfigureID(name string) string { return "configure/" + name }

// LetIn makes a machine's agent admit others. A machine that does not answer is configured later, and reports errors then.
func (c *Observer) LetIn(ctx context.Context, name string, args []string) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.Dialer.Agent(ctx, h, nil, args...)
	}
	if fail.KindOf(err) == fail.Unreachable {
		return nil
	}
	return err
}
