package openstack

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

const (
	serverGroupsStep = "server-groups"
	keypairStep      = "keypair"
)

// serverGroupName returns the name and policy of a machine's server group; both are empty if it joins none. The name contains the policy, because
// neither a group's policy nor a machine's group can change later.
func (p *Provider) serverGroupName(m provider.MachineSpec) (name, policy string) {
	kind := p.shape(m.Role, m.Pool).AntiAffinity
	switch kind {
	case v1alpha1.AntiAffinityNone:
		return "", ""
	case v1alpha1.AntiAffinityHard:
		policy = "anti-affinity"
	default:
		kind, policy = v1alpha1.AntiAffinitySoft, "soft-anti-affinity"
	}
	parts := []string{string(m.Role)}
	if m.Pool != "" {
		parts = append(parts, m.Pool)
	}
	return p.n.Name(append(parts, kind)...), policy
}

// serverGroup returns the ID of the server group for a new machine; empty if it joins none.
func (p *Provider) serverGroup(m provider.MachineSpec) string {
	name, _ := p.serverGroupName(m)
	g, _ := p.serverGroupCalled(name)
	return g.ID
}

// serverGroupCalled returns the server group with the given name, preferring the one with most members, and the memberless duplicates.
func (p *Provider) serverGroupCalled(name string) (g servergroups.ServerGroup, twice []servergroups.ServerGroup) {
	all := p.known.serverGroups.Filter(func(g servergroups.ServerGroup) bool { return g.Name == name })
	if len(all) == 0 {
		return g, nil
	}
	g, twice = cache.Best(all, func(g servergroups.ServerGroup) int { return len(g.Members) })
	return g, slices.DeleteFunc(twice, func(g servergroups.ServerGroup) bool { return len(g.Members) > 0 })
}

// serverGroupsPlan returns the step that creates the server groups of new machines, and removes duplicates of the wanted machines' groups.
func (p *Provider) serverGroupsPlan(want, fresh []provider.MachineSpec) *plan.Step {
	policies := map[string]string{}
	var names, details []string
	missing := 0
	for _, m := range want {
		name, policy := p.serverGroupName(m)
		if name == "" || policies[name] != "" {
			continue
		}
		needed := slices.ContainsFunc(fresh, func(f provider.MachineSpec) bool { n, _ := p.serverGroupName(f); return n == name })
		switch g, twice := p.serverGroupCalled(name); {
		case g.ID == "" && needed:
			missing++
			details = append(details, "server group "+name+": "+policy)
		case len(twice) > 0:
			details = append(details, "remove a duplicate of server group "+name)
		default:
			continue
		}
		policies[name] = policy
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	slices.Sort(details)
	s := &plan.Step{
		ID: serverGroupsStep, Action: plan.Create, Title: "create " + cloud.Count(missing, "server group"), Subject: "cluster", Details: details,
		Reason: "machines of a role or pool are kept on different hypervisors", Timeout: p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error {
			return p.ensureServerGroups(ctx, names, policies, progress)
		},
	}
	if missing == 0 {
		s.Action, s.Title, s.Reason = plan.Change, "remove duplicate server groups", "there is more than one of a name"
	}
	return s
}

func (p *Provider) ensureServerGroups(ctx context.Context, names []string, policies map[string]string, progress plan.Progress) error {
	if err := p.known.serverGroups.Fresh(ctx); err != nil {
		return err
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		progress.Status("server group %s", name)
		g, twice := p.serverGroupCalled(name)
		for _, o := range twice {
			if err := cache.Removed(p.known.serverGroups, o.ID, servergroups.Delete(ctx, c.Compute, o.ID).ExtractErr(), "remove server group %s, which was made twice", name); err != nil {
				return err
			}
		}
		if g.ID != "" {
			continue
		}
		created, err := servergroups.Create(ctx, c.Compute, servergroups.CreateOpts{Name: name, Policy: policies[name]}).Extract()
		if _, err := cache.Made(p.known.serverGroups, created, err, "make server group %s", name); err != nil {
			return err
		}
	}
	return nil
}

// keypairPlan returns the step that uploads Naupegos' public SSH key to Nova.
func (p *Provider) keypairPlan() *plan.Step {
	if k, ok := p.known.keypairs.Find(cache.Anything); p.opts.PublicKey == "" || ok && sameKey(k.PublicKey, p.opts.PublicKey) {
		return nil
	}
	return &plan.Step{
		ID: keypairStep, Action: plan.Create, Title: "create the keypair", Subject: "cluster", Reason: "new servers get its public key",
		Details: []string{"keypair " + p.n.Name()}, Timeout: p.opts.Timeouts.Step,
		Run: func(ctx context.Context, _ plan.Progress) error { return p.ensureKeypair(ctx) },
	}
}

func (p *Provider) ensureKeypair(ctx context.Context) error {
	if err := p.known.keypairs.Fresh(ctx); err != nil {
		return err
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	if k, ok := p.known.keypairs.Find(cache.Anything); ok {
		if sameKey(k.PublicKey, p.opts.PublicKey) {
			return nil
		}
		err := keypairs.Delete(ctx, c.Compute, k.Name, nil).ExtractErr() // existing servers keep their key
		if err := cache.Removed(p.known.keypairs, k.Name, err, "replace keypair %s", k.Name); err != nil {
			return err
		}
	}
	k, err := keypairs.Create(ctx, c.Compute, keypairs.CreateOpts{Name: p.n.Name(), PublicKey: p.opts.PublicKey}).Extract()
	if _, ok, failed := cache.Late(ctx, p.known.keypairs, err, func(k keypairs.KeyPair) bool { return sameKey(k.PublicKey, p.opts.PublicKey) }); ok || failed != nil {
		return failed
	}
	_, err = cache.Made(p.known.keypairs, k, err, "make keypair %s", p.n.Name())
	return err
}

// sameKey compares public keys without their comments.
func sameKey(a, b string) bool {
	fa, fb := strings.Fields(a), strings.Fields(b)
	return len(fa) > 1 && len(fb) > 1 && fa[0] == fb[0] && fa[1] == fb[1]
}

// SetKey implements provider.Keyed.
func (p *Provider) SetKey(publicKey string) { p.opts.PublicKey = publicKey }
