package openstack

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// switchOn does what leaves a server's state for ACTIVE; false where there is nothing to do but to wait.
func (p *Provider) switchOn(ctx context.Context, s servers.Server) (bool, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return false, err
	}
	switch s.Status {
	case serverShutoff:
		err = servers.Start(ctx, c.Compute, s.ID).ExtractErr()
	case "PAUSED":
		err = servers.Unpause(ctx, c.Compute, s.ID).ExtractErr()
	case "SUSPENDED":
		err = servers.Resume(ctx, c.Compute, s.ID).ExtractErr()
	case "SHELVED", "SHELVED_OFFLOADED":
		err = servers.Unshelve(ctx, c.Compute, s.ID, servers.UnshelveOpts{}).ExtractErr()
	default:
		return false, nil
	}
	if cloud.Status(err) == 409 { // it changes already
		return false, nil
	}
	return err == nil, cloud.Wrap(err, "switch on server %s (%s)", s.Name, s.ID)
}

// Power starts ("on") or stops a machine's server, and waits until Nova says that it is so. Nova asks a server to shut down and
// switches it off after a while (os_shutdown_timeout of the image, 60 seconds by default); it knows no way to do so at once, so
// "kill" is the same as "off" here.
func (p *Provider) Power(ctx context.Context, name, state string) error {
	if err := cache.Fresh(ctx, p.known.servers, p.known.ports); err != nil {
		return err
	}
	s, ok := p.serverOf(name)
	if !ok {
		return p.noMachine(name)
	}
	switch state {
	case "on":
		_, err := p.waitServer(ctx, name, s.ID, silent{})
		return err
	case "off", "kill":
		return p.switchOff(ctx, s)
	}
	return fail.New(fail.Invalid, "power %q: say on, off or kill", state).At(name)
}

func (p *Provider) switchOff(ctx context.Context, s servers.Server) error {
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	if s.Status == serverActive {
		if err := servers.Stop(ctx, c.Compute, s.ID).ExtractErr(); err != nil && cloud.Status(err) != 409 {
			return cloud.Wrap(err, "switch off server %s (%s)", s.Name, s.ID)
		}
	}
	limit := time.Now().Add(p.opts.Timeouts.Boot)
	for {
		if err := p.known.servers.Next(ctx, p.opts.Timeouts.Poll, nil); err != nil {
			return err
		}
		now, ok := p.known.servers.Find(func(o servers.Server) bool { return o.ID == s.ID })
		switch {
		case !ok || now.Status == serverShutoff:
			return nil
		case time.Now().After(limit):
			return fail.New(fail.NotReady, "its server %s is still %s", s.ID, stateText(now)).At(s.Name)
		}
	}
}

// silent is a plan.Progress that nobody watches.
type silent struct{}

// Status says nothing.
func (silent) Status(string, ...any) {}
