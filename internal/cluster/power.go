package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// ConsentQuorum names the consent to switching off so many control-plane machines that etcd loses its quorum.
const ConsentQuorum = "lose-quorum"

// Outage says what switching machines off disturbs.
type Outage struct {
	Words  []string // one sentence each, for people
	Quorum error    // why etcd would lose its quorum, or may: it needs ConsentQuorum; nil where it keeps it
}

// Outage foresees what is disturbed when machines are switched off, all of them at once. Those that are off disturb nothing any more.
func (c *Cluster) Outage(ctx context.Context, machines []string) (*Outage, error) {
	o, err := c.observeInventory(ctx, c.decided())
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
		add("%s: pods are not moved before (naupegos node drain does that); Kubernetes starts them elsewhere only after minutes.", list(names))
	}
	switch names := off[provider.Gateway]; {
	case len(names) == 0:
	case left[provider.Gateway] == 0:
		add("%s: no gateway is left; the API and ingress can't be reached.", list(names))
	default:
		add("%s: connections through it break; another gateway takes the address.", list(names))
	}
	if names := off[provider.ControlPlane]; len(names) > 0 && c.facts.Bootstrapped() {
		if err := c.observeEtcd(ctx, o); err != nil {
			return nil, err
		}
		after, err := quorumWithout(o, names)
		if out.Quorum = err; err == nil {
			add("%s: etcd goes on: %s.", list(names), after)
		} else {
			add("%s: etcd stops, and with it the API: %v.", list(names), err)
		}
	}
	return out, nil
}

func list(names []string) string { return strings.Join(names, ", ") }

// quorumWithout projects etcd without machines: an error where it has no quorum then, or where that can't be told.
func quorumWithout(o *Observed, machines []string) (etcd.Projection, error) {
	if o.EtcdErr != nil {
		return etcd.Projection{}, fail.Wrap(fail.Refused, o.EtcdErr, "it can't be foreseen whether etcd keeps its quorum")
	}
	health := slices.Clone(o.Health)
	after := etcd.Now(o.Members, health)
	for _, name := range machines {
		m, ok := o.member(name)
		if !ok {
			continue
		}
		var err error
		if after, err = etcd.Project(o.Members, health, etcd.Change{Action: etcd.Stop, ID: m.ID}); err != nil {
			return after, err
		}
		health = slices.DeleteFunc(health, func(h etcd.Health) bool { return h.ID == m.ID }) // only what is known to be good counts
	}
	return after, nil
}
