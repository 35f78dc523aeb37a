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
)

const (
	serverGroupsStep = "server-groups"
	keypairStep      = "keypair"
)

// serverGroupName names the server group of a role or pool after its policy too: a policy can't be changed, and a machine's
// group can't either.
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
	return p.n.name(append(parts, kind)...), policy
}

// serverGroup returns the ID of the server group that a new machine goes into; empty where it goes into none.
func (p *Provider) serverGroup(m provider.MachineSpec) string {
	name, _ := p.serverGroupName(m)
	g, _ := p.known.serverGroups.find(func(g servergroups.ServerGroup) bool { return g.Name == name })
	return g.ID
}

// serverGroupsPlan returns the step that makes the server groups that new machines go into.
func (p *Provider) serverGroupsPlan(fresh []provider.MachineSpec) *plan.Step {
	wanted := map[string]string{}
	var missing []string
	for _, m := range fresh {
		name, policy := p.serverGroupName(m)
		if name == "" || wanted[name] != "" {
			continue
		}
		wanted[name] = policy
		if p.serverGroup(m) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	s := &plan.Step{
		ID: serverGroupsStep, Action: plan.Create, Title: "make " + count(len(missing), "server group"), Subject: "cluster",
		Reason: "machines of a role or pool are kept on different hypervisors", Timeout: p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error {
			return p.ensureServerGroups(ctx, missing, wanted, progress)
		},
	}
	for _, name := range missing {
		s.Details = append(s.Details, "server group "+name+": "+wanted[name])
	}
	return s
}

func (p *Provider) ensureServerGroups(ctx context.Context, names []string, policies map[string]string, progress plan.Progress) error {
	if err := p.known.serverGroups.fresh(ctx); err != nil {
		return err
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := p.known.serverGroups.find(func(g servergroups.ServerGroup) bool { return g.Name == name }); ok {
			continue
		}
		progress.Status("server group %s", name)
		g, err := servergroups.Create(ctx, c.compute, servergroups.CreateOpts{Name: name, Policy: policies[name]}).Extract()
		if _, err := made(p.known.serverGroups, g, err, "make server group %s", name); err != nil {
			return err
		}
	}
	return nil
}

// keypairPlan returns the step that gives Nova the key that Naupegos logs in with.
func (p *Provider) keypairPlan() *plan.Step {
	if k, ok := p.known.keypairs.find(anything); p.opts.PublicKey == "" || ok && sameKey(k.PublicKey, p.opts.PublicKey) {
		return nil
	}
	return &plan.Step{
		ID: keypairStep, Action: plan.Create, Title: "make the keypair", Subject: "cluster", Reason: "new servers are given it",
		Details: []string{"keypair " + p.n.name()}, Timeout: p.opts.Timeouts.Step,
		Run: func(ctx context.Context, _ plan.Progress) error { return p.ensureKeypair(ctx) },
	}
}

func (p *Provider) ensureKeypair(ctx context.Context) error {
	if err := p.known.keypairs.fresh(ctx); err != nil {
		return err
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	if k, ok := p.known.keypairs.find(anything); ok {
		if sameKey(k.PublicKey, p.opts.PublicKey) {
			return nil
		}
		err := keypairs.Delete(ctx, c.compute, k.Name, nil).ExtractErr() // servers keep what they were made with
		if err := removed(p.known.keypairs, k.Name, err, "replace keypair %s", k.Name); err != nil {
			return err
		}
	}
	k, err := keypairs.Create(ctx, c.compute, keypairs.CreateOpts{Name: p.n.name(), PublicKey: p.opts.PublicKey}).Extract()
	if _, ok, failed := late(ctx, p.known.keypairs, err, func(k keypairs.KeyPair) bool { return sameKey(k.PublicKey, p.opts.PublicKey) }); ok || failed != nil {
		return failed
	}
	_, err = made(p.known.keypairs, k, err, "make keypair %s", p.n.name())
	return err
}

// sameKey compares public keys without their comments.
func sameKey(a, b string) bool {
	fa, fb := strings.Fields(a), strings.Fields(b)
	return len(fa) > 1 && len(fb) > 1 && fa[0] == fb[0] && fa[1] == fb[1]
}
