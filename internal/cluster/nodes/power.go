package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/tool"
)

// PlanPower switches machines side by side, each through states of provider.Power in order. It returns fail.Refused if the provider can't switch a machine
// through all of them, before any machine is switched off.
func (c *Nodes) PlanPower(ctx context.Context, verb string, machines, states []string) (*plan.Plan, error) {
	for _, name := range machines {
		if !slices.Equal(states, []string{"off"}) && !c.Switches(ctx, name) {
			return nil, fail.New(fail.Refused, "%s: %s; nothing was changed", verb, c.Unswitched()).At(name).
				Do("naupegos machine stop shuts one down; naupegos ssh %s MACHINE -- systemctl reboot reboots it", c.Name())
		}
	}
	titles := map[string]string{"on": "power on machine %s", "off": "shut down machine %s", "kill": "power off machine %s immediately"}
	p := &plan.Plan{Verb: verb, Cluster: c.Name()}
	for _, name := range machines {
		var before []string
		for _, state := range states {
			s := &plan.Step{
				ID: "power/" + state + "/" + name, Action: plan.Change, Subject: name, Rolling: state != "on", Title: fmt.Sprintf(titles[state], name), Reason: "as requested",
				Needs: before, Timeout: c.Doc.Spec.Timeouts.MachineBoot.Duration,
				Run: func(ctx context.Context, p plan.Progress) error { return c.Prov.Power(ctx, name, state) },
			}
			before = []string{s.ID}
			p.Steps = append(p.Steps, s)
		}
	}
	return p, nil
}

// Switches reports whether a machine can be switched on, and off without a shutdown.
func (c *Nodes) Switches(ctx context.Context, name string) bool {
	if p, ok := c.Prov.(provider.PartlySwitched); ok {
		return p.Switches(ctx, name)
	}
	return c.Prov.Traits().Switched
}

// Unswitched returns why a machine has no power control.
func (c *Nodes) Unswitched() string {
	if c.Prov.Traits().Switched {
		return "no BMC is configured for the machine"
	}
	return "machines of this provider have no power control"
}

// ConsentQuorum is the consent to switching off control-plane machines although etcd loses its quorum.
const ConsentQuorum = "lose-quorum"

// Outage foresees the disturbance if all of these machines are switched off at once. Machines that are off already disturb nothing more.
type Outage struct {
	Words  []string // one sentence each, for people
	Quorum error    // why etcd would or may lose its quorum, which needs ConsentQuorum; nil if it keeps the quorum
}

// Outage foresees the disturbance if all of these machines are switched off at once. Machines that are off already disturb nothing more.
func (c *Nodes) Outage(ctx context.Context, machines []string) (*Outage, error) {
	o, err := c.ObserveInventory(ctx, c.Decided())
	if err != nil {
		return nil, err
	}
	off := map[provider.Role][]string{}
	left := map[provider.Role]int{}
	for _, m := range o.Inventory.Machines {
		switch {
		case m.State != provider.Running:
		case slices.Contains(machines, m.Name):
			off[m.Role] = append(off[m.Role], m.Name)
		default:
			left[m.Role]++
		}
	}
	out := &Outage{}
	add := func(format string, args ...any) { out.Words = append(out.Words, fmt.Sprintf(format, args...)) }
	if names := off[provider.Worker]; len(names) > 0 {
		add("%s: pods are not evicted first (naupegos node drain does that); Kubernetes starts them elsewhere only after minutes.", strings.Join(names, ", "))
	}
	switch names := off[provider.Gateway]; {
	case len(names) == 0:
	case left[provider.Gateway] == 0:
		add("%s: no gateway is left; the API and ingress can't be reached.", strings.Join(names, ", "))
	default:
		add("%s: connections through it break; another gateway takes over the address.", strings.Join(names, ", "))
	}
	if names := off[provider.ControlPlane]; len(names) > 0 && c.Facts.Bootstrapped() {
		if err := c.ObserveEtcd(ctx, o); err != nil {
			return nil, err
		}
		after, err := QuorumWithout(o, names)
		if out.Quorum = err; err == nil {
			add("%s: etcd keeps its quorum: %s.", strings.Join(names, ", "), after)
		} else {
			add("%s: etcd stops, and with it the API: %v.", strings.Join(names, ", "), err)
		}
	}
	return out, nil
}

// Restart restarts a machine through a state of provider.Power. If its provider can't switch it, the machine reboots itself.
func (c *Nodes) Restart(ctx context.Context, name, by string, p plan.Progress) error {
	if c.Switches(ctx, name) {
		p.Status("waiting until it is off")
		if err := c.Prov.Power(ctx, name, by); err != nil {
			return err
		}
		p.Status("waiting until it has booted")
		return c.Prov.Power(ctx, name, "on")
	}
	was, err := c.Life(ctx, name)
	if err != nil {
		return err
	}
	h, err := c.Host(ctx, name)
	if err != nil {
		return err
	}
	if _, err := c.Dialer.Run(ctx, h, nil, "systemctl", "reboot"); err != nil && fail.KindOf(err) != fail.Unreachable {
		return err
	}
	p.Status("waiting until it has rebooted")
	return tool.Until(ctx, time.Second, func() (bool, error) {
		now, err := c.Life(ctx, name)
		if fail.Waitable(err) {
			return false, nil
		}
		return err == nil && now.BootID != was.BootID, err
	})
}

// Reboot may be repeated: a machine that has got away from the boot ID that is remembered has rebooted, and one that is off is switched on.
func (c *Nodes) Reboot(ctx context.Context, name string, p plan.Progress) error {
	was := c.Facts.Of(memory.Rebooting, name)
	h, err := c.Host(ctx, name)
	if err != nil {
		return err
	}
	now, err := c.Dialer.RebootReasons(ctx, h)
	switch {
	case fail.KindOf(err) == fail.Unreachable && was != "" && c.Switches(ctx, name):
		return c.Prov.Power(ctx, name, "on")
	case err != nil:
		return err
	case was != "" && now.BootID != was:
		return nil
	case was == "" && len(now.Reboot) == 0:
		p.Status("it need not be rebooted")
		return nil
	}
	if err := c.Facts.SetOf(ctx, memory.Rebooting, name, now.BootID); err != nil {
		return err
	}
	return c.Restart(ctx, name, "off", p)
}
