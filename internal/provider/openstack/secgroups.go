package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/firewall"
)

const groupsStep = "security-groups"

// groupOf returns the ID of a role's security group; empty before it exists.
func (p *Provider) groupOf(r provider.Role) string {
	g, _ := p.groupFor(r)
	return g.ID
}

func (p *Provider) groupFor(r provider.Role) (groups.SecGroup, bool) {
	return p.known.groups.Find(func(g groups.SecGroup) bool { return g.Name == p.n.Name(string(r)) })
}

// groupIDs returns the security groups for the ports of a role's machines.
func (p *Provider) groupIDs(r provider.Role) []string {
	if id := p.groupOf(r); id != "" {
		return []string{id}
	}
	return nil
}

// groupsPlan returns the step that creates the roles' security groups and corrects their rules; nil if nothing differs. A change interrupts no
// traffic: rules that stay wanted are never removed in between.
func (p *Provider) groupsPlan(subnet string) *plan.Step {
	a := firewall.AccessOf(p.opts.Cluster, subnet)
	var details []string
	fresh := true
	for _, r := range a.Roles {
		g, ok := p.groupFor(r)
		fresh = fresh && !ok
		add, drop := p.ruleChanges(a, r)
		switch {
		case !ok:
			details = append(details, fmt.Sprintf("security group %s with %d rules", p.n.Name(string(r)), len(a.Rules(r))))
		case len(add)+len(drop) > 0:
			details = append(details, fmt.Sprintf("security group %s: add %d rules, remove %d", g.Name, len(add), len(drop)))
		case !slices.Contains(g.Tags, p.n.Mark()):
			details = append(details, "tags of security group "+g.Name)
		case len(p.groupsCalled(g.Name)) > 1:
			details = append(details, "remove a duplicate of security group "+g.Name)
		}
	}
	if len(details) == 0 {
		return nil
	}
	s := &plan.Step{
		ID: groupsStep, Action: plan.Create, Title: "create the security groups", Subject: "cluster",
		Reason: "they control who may reach the machines", Details: details, Timeout: p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error { return p.ensureGroups(ctx, a, progress) },
	}
	if !fresh {
		s.Action, s.Title = plan.Change, "change the security groups"
	}
	return s
}

func (p *Provider) groupsCalled(name string) []groups.SecGroup {
	return p.known.groups.Filter(func(g groups.SecGroup) bool { return g.Name == name })
}

// ruleChanges compares a role's rules with the wanted ones.
func (p *Provider) ruleChanges(a firewall.Access, r provider.Role) (add []rules.CreateOpts, drop []rules.SecGroupRule) {
	g, _ := p.groupFor(r)
	var want []rules.CreateOpts
	for _, w := range a.Rules(r) {
		want = append(want, w.Request(g.ID, p.groupOf))
	}
	for _, w := range want {
		if !slices.ContainsFunc(g.Rules, func(h rules.SecGroupRule) bool { return firewall.Same(h, w) }) {
			add = append(add, w)
		}
	}
	for _, h := range g.Rules {
		if !slices.ContainsFunc(want, func(w rules.CreateOpts) bool { return firewall.Same(h, w) }) {
			drop = append(drop, h)
		}
	}
	return add, drop
}

// ensureGroups makes the groups first, because rules name other groups, and then adds rules before it removes any.
func (p *Provider) ensureGroups(ctx context.Context, a firewall.Access, progress plan.Progress) error {
	if err := cache.Fresh(ctx, p.known.groups); err != nil {
		return err
	}
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	var first, then errgroup.Group
	progress.Status("security groups")
	for _, r := range a.Roles {
		first.Go(func() error { return p.ensureGroup(ctx, c, r) })
	}
	if err := first.Wait(); err != nil {
		return err
	}
	progress.Status("rules of security groups")
	for _, r := range a.Roles {
		then.Go(func() error { return p.ensureRules(ctx, c, a, r) })
	}
	return then.Wait()
}

func (p *Provider) ensureGroup(ctx context.Context, c *gophercloud.ServiceClient, r provider.Role) error {
	name := p.n.Name(string(r))
	g, ok := p.groupFor(r)
	if !ok {
		got, err := groups.Create(ctx, c, groups.CreateOpts{Name: name, Description: p.n.Mark()}).Extract()
		if g, err = cache.Made(p.known.groups, got, err, "make security group %s", name); err != nil {
			return err
		}
	}
	for _, twice := range p.groupsCalled(name) {
		if twice.ID != g.ID {
			if err := cache.Removed(p.known.groups, twice.ID, groups.Delete(ctx, c, twice.ID).ExtractErr(), "remove security group %s, which was made twice", name); err != nil {
				return err
			}
		}
	}
	tags, err := p.tag(ctx, "security-groups", g.ID, g.Tags, p.n.RoleTags(string(r)))
	if err != nil {
		return err
	}
	g.Tags = tags
	p.known.groups.Keep(g)
	return nil
}

func (p *Provider) ensureRules(ctx context.Context, c *gophercloud.ServiceClient, a firewall.Access, r provider.Role) error {
	g, _ := p.groupFor(r)
	add, drop := p.ruleChanges(a, r)
	if len(add) > 0 {
		got, err := rules.CreateBulk(ctx, c, add).Extract()
		if err != nil {
			_, _, failed := cache.Late(ctx, p.known.groups, err, cache.Anything)
			if failed != nil {
				return failed
			}
			if left, _ := p.ruleChanges(a, r); cloud.Status(err) == http.StatusConflict && len(left) < len(add) {
				return p.ensureRules(ctx, c, a, r) // each attempt has fewer rules to add
			}
			p.known.groups.Invalidate()
			return cloud.Wrap(err, "add %s to security group %s", cloud.Count(len(add), "rule"), g.Name)
		}
		g.Rules = append(slices.Clone(g.Rules), got...)
		p.known.groups.Keep(g)
	}
	for _, d := range drop {
		if err := rules.Delete(ctx, c, d.ID).ExtractErr(); err != nil && !cloud.Gone(err) {
			p.known.groups.Invalidate()
			return cloud.Wrap(err, "remove a rule of security group %s", g.Name)
		}
		g.Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(h rules.SecGroupRule) bool { return h.ID == d.ID })
		p.known.groups.Keep(g)
	}
	return nil
}
