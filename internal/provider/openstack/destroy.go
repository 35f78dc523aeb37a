package openstack

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

const sweepStep = "destroy-rest"

// DestroyMachine returns the step that removes a machine and its own resources: server, volumes, floating IP and ports. It requires consent if the
// machine has additional volumes.
func (p *Provider) DestroyMachine(m provider.Machine) *plan.Step {
	lost, consent := p.volumes.Lost(m.Name), ""
	if len(lost) > 0 {
		consent = provider.ConsentVolumes
	}
	return &plan.Step{
		ID: provider.DestroyStep(m.Name), Action: plan.Destroy, Title: "destroy machine " + m.Name, Subject: m.Name,
		Reason: "it is no longer wanted", Details: lost, Consent: consent, Timeout: 3*p.opts.Timeouts.Delete + time.Minute,
		Run: func(ctx context.Context, progress plan.Progress) error {
			if err := p.balancer.RemoveMember(ctx, m, silent{}); err != nil {
				return fail.Wrap(fail.KindOf(err), err, "take the machine out of the load balancer").At(m.Name)
			}
			return p.wipe(ctx, m.Name, progress)
		},
	}
}

// wipe removes a machine in any state.
func (p *Provider) wipe(ctx context.Context, name string, progress plan.Progress) error {
	k := &p.known
	if err := cache.Fresh(ctx, k.servers, k.volumes, k.ports, k.floating); err != nil {
		return err
	}
	if err := p.removeServers(ctx, p.everyServerOf(name), progress); err != nil {
		return err
	}
	progress.Status("floating IP and port")
	if err := p.floating.Remove(ctx, p.floating.OfMachine(name)); err != nil {
		return err
	}
	if err := p.removePorts(ctx, append(p.portsOf(name), nicsOf(p, name)...)); err != nil {
		return err
	}
	if len(p.volumes.Of(name)) > 0 {
		if err := p.known.volumes.Next(ctx, 0, nil); err != nil { // Nova deletes most volumes with their server
			return err
		}
	}
	err := p.volumes.Remove(ctx, p.volumes.Of(name), progress)
	var held *volume.HeldError
	if errors.As(err, &held) { // the cache includes its server now
		return p.wipe(ctx, name, progress)
	}
	return err
}

// removePorts deletes ports. A port can stay in use for a moment while its server releases it.
func (p *Provider) removePorts(ctx context.Context, all []ports.Port) error {
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		err := cache.Removed(p.known.ports, o.ID, ports.Delete(ctx, c, o.ID).ExtractErr(), "remove port %s (%s)", o.Name, o.ID)
		if err != nil {
			return cloud.Still(err, func() string { return "port " + o.Name + " is still used by " + o.DeviceOwner + " " + o.DeviceID })
		}
	}
	return nil
}

// Destroy returns the steps that remove the cluster: machines and load balancer in parallel, then the network, then a check that nothing is left.
func (p *Provider) Destroy(ctx context.Context, seen *provider.Inventory) []*plan.Step {
	steps := p.balancer.Destroy()
	if seen != nil {
		for _, m := range seen.Machines {
			s := p.DestroyMachine(m)
			s.Reason, s.Consent = "the cluster is destroyed", ""                                                     // the user agrees to lose everything
			s.Run = func(ctx context.Context, progress plan.Progress) error { return p.wipe(ctx, m.Name, progress) } // the load balancer is deleted as a whole
			steps = append(steps, s)
		}
	}
	var first []string
	for _, s := range steps {
		first = append(first, s.ID)
	}
	what := "remove the network"
	if p.spec().Network.Existing != "" {
		what = "remove ports and security groups"
	}
	err := p.known.serverGroups.Fresh(ctx)
	details := p.others()
	if err != nil {
		details = append(details, "server groups, which can't be listed now: "+err.Error())
	}
	if why := p.dns.Unseen(); why != "" {
		details = append(details, "DNS records, which can't be listed now: "+why)
	}
	stays := p.strangersKeypair()
	if stays != "" {
		details = append(details, stays)
	}
	return append(steps,
		&plan.Step{
			ID: provider.DestroyNetworkStep, Action: plan.Destroy, Title: what, Subject: "cluster", Reason: "the cluster is destroyed",
			Details: details, Needs: first, Timeout: 2 * p.opts.Timeouts.Delete,
			Run: func(ctx context.Context, progress plan.Progress) error { return p.destroyRest(ctx, progress) },
		},
		&plan.Step{
			ID: sweepStep, Action: plan.Destroy, Title: "remove what is left, and verify that nothing remains", Subject: "cluster",
			Reason: "the cluster is destroyed", Needs: []string{provider.DestroyNetworkStep}, Timeout: 2 * p.opts.Timeouts.Delete,
			Run: func(ctx context.Context, progress plan.Progress) error {
				err := p.sweep(ctx, progress)
				if n, ok := progress.(plan.Noter); ok && err == nil && stays != "" {
					n.Note("%s", stays)
				}
				return err
			},
		})
}

// strangersKeypair explains that the cluster's keypair stays because another user made it: Nova shows keypairs only to their own user. It is
// empty if this user has the keypair, or no server was made with it.
func (p *Provider) strangersKeypair() string {
	if _, own := p.known.keypairs.Find(cache.Anything); own {
		return ""
	}
	s, there := p.known.servers.Find(func(s servers.Server) bool { return s.KeyName == p.n.Name() })
	if !there {
		return ""
	}
	return "keypair " + p.n.Name() + " stays: it belongs to user " + s.UserID + ", who can delete it with `openstack keypair delete " + p.n.Name() + "`"
}

// sweep lists all resources again and removes the remaining ones, until the lists are empty or the time limit is over.
func (p *Provider) sweep(ctx context.Context, progress plan.Progress) error {
	limit := time.Now().Add(p.opts.Timeouts.Delete)
	var last error
	for {
		progress.Status("listing the remains")
		if err := p.reload(ctx); err != nil {
			return err
		}
		left := p.left()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(limit) {
			e := fail.New(fail.Refused, "%s of cluster %s are left: %s", cloud.Count(len(left), "thing"), p.n.ID, strings.Join(left, ", "))
			if last != nil {
				e = fail.Wrap(fail.Refused, last, "%s of cluster %s are left: %s", cloud.Count(len(left), "thing"), p.n.ID, strings.Join(left, ", "))
			}
			return e.Do("run naupegos destroy again")
		}
		progress.Status("removing %s", strings.Join(left, ", "))
		for _, m := range p.machines() {
			if err := p.wipe(ctx, m.Name, progress); err != nil {
				return err
			}
		}
		if last = p.destroyRest(ctx, progress); last != nil && !fail.Waitable(last) {
			return last
		}
		if err := cloud.Sleep(ctx, p.opts.Timeouts.Poll); err != nil {
			return err
		}
	}
}

// left lists every resource of the cluster in the last lists.
func (p *Provider) left() []string {
	out := p.others()
	for _, m := range p.machines() {
		out = append(out, "machine "+m.Name)
	}
	for _, s := range p.known.servers.All() {
		if s.Status != serverDeleted {
			out = append(out, "server "+s.Name)
		}
	}
	for _, v := range p.known.volumes.All() {
		out = append(out, "volume "+v.Name+" ("+v.Status+")")
	}
	return out
}
