package openstack

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

const volumesStep = "volumes"

// States of a volume.
const (
	volumeAvailable = "available"
	volumeDeleting  = "deleting"
)

// volumesOf lists the root volumes of a machine: one, or more after an interrupted run.
func (p *Provider) volumesOf(machine string) []volumes.Volume {
	return slices.DeleteFunc(everyVolumeOf(p, machine), func(v volumes.Volume) bool { return volumeName(v) != "" })
}

// everyVolumeOf lists the volumes of a machine.
func everyVolumeOf(p *Provider, machine string) []volumes.Volume {
	return p.known.volumes.Filter(func(v volumes.Volume) bool { return v.Metadata[marks.Underscored(marks.KeyMachine)] == machine })
}

// volumesPlan returns the step that requests the root volumes of all new machines at once: Cinder fills them while the network is made. It is
// nil if none has a root volume.
func (p *Provider) volumesPlan(fresh []provider.MachineSpec) *plan.Step {
	var want []provider.MachineSpec
	var details []string
	for _, m := range fresh {
		if size := p.shape(m.Role, m.Pool).RootVolume(); size > 0 && p.hasNothing(m.Name) {
			want = append(want, m)
			details = append(details, fmt.Sprintf("root volume of %s: %d GiB", m.Name, size))
		}
	}
	if len(want) == 0 {
		return nil
	}
	return &plan.Step{
		ID: volumesStep, Action: plan.Create, Title: "request " + cloud.Count(len(want), "root volume"), Subject: "cluster",
		Reason: "their machines do not exist", Details: details, Timeout: p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error { return p.askForVolumes(ctx, want, progress) },
	}
}

// hasNothing reports whether a machine has neither server nor volume. The machine's own step adopts or removes existing ones.
func (p *Provider) hasNothing(machine string) bool {
	return len(p.everyServerOf(machine)) == 0 && len(p.volumesOf(machine)) == 0
}

// askForVolumes requests root volumes without waiting for them.
func (p *Provider) askForVolumes(ctx context.Context, want []provider.MachineSpec, progress plan.Progress) error {
	if err := cache.Fresh(ctx, p.known.servers, p.known.volumes); err != nil {
		return err
	}
	progress.Status("requesting %s", cloud.Count(len(want), "root volume"))
	var g errgroup.Group // without a shared context, so that a failure does not interrupt other requests, whose volumes would appear late
	g.SetLimit(cloud.MaxCalls)
	for _, m := range want {
		if !p.hasNothing(m.Name) {
			continue
		}
		g.Go(func() error {
			_, err := p.createVolume(ctx, m)
			return err
		})
	}
	return g.Wait()
}

// ensureVolume returns the root volume of a new machine, ready for use: one from an interrupted run if it is intact and as wanted, else a new
// one. It removes the others.
func (p *Provider) ensureVolume(ctx context.Context, m provider.MachineSpec, progress plan.Progress) (volumes.Volume, error) {
	mark := shapeMark(p.shape(m.Role, m.Pool))
	var fit, rest []volumes.Volume
	for _, v := range p.volumesOf(m.Name) {
		if v.Metadata[marks.Underscored(marks.KeyShape)] == mark && len(fit) == 0 && usable(v.Status) {
			fit = append(fit, v)
		} else {
			rest = append(rest, v)
		}
	}
	if err := p.removeVolumes(ctx, rest, progress); err != nil {
		return volumes.Volume{}, err
	}
	if len(fit) == 0 {
		v, err := p.createVolume(ctx, m)
		if err != nil {
			return v, err
		}
		fit = append(fit, v)
	}
	return p.waitVolume(ctx, m.Name, fit[0].ID, progress)
}

// usable reports whether a volume in this status can, or will soon, serve as a root volume.
func usable(status string) bool {
	switch status {
	case volumeAvailable, "creating", "downloading":
		return true
	}
	return false
}

func (p *Provider) createVolume(ctx context.Context, m provider.MachineSpec) (volumes.Volume, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return volumes.Volume{}, err
	}
	cinder, err := c.BlockStorage()
	if err != nil {
		return volumes.Volume{}, err
	}
	shape := p.shape(m.Role, m.Pool)
	image, err := p.existing.Image(ctx, shape.Image)
	if err != nil {
		return volumes.Volume{}, err
	}
	place, err := p.existing.VolumeZoneFor(ctx, zone(shape, m.Index))
	if err != nil {
		return volumes.Volume{}, err
	}
	meta := p.n.Metadata(m)
	meta[marks.Underscored(marks.KeyShape)] = shapeMark(shape)
	v, err := volumes.Create(ctx, cinder, volumes.CreateOpts{
		Name: m.Name, Size: shape.RootVolume(), ImageID: image.ID, VolumeType: shape.RootVolumeType, AvailabilityZone: place, Metadata: meta,
	}, nil).Extract()
	return cache.Made(p.known.volumes, v, err, "make the root volume of %s", m.Name)
}

// waitVolume waits until a volume has its image's content.
func (p *Provider) waitVolume(ctx context.Context, machine, id string, progress plan.Progress) (volumes.Volume, error) {
	limit := time.Now().Add(p.opts.Timeouts.Volume)
	for {
		v, ok := p.known.volumes.Find(func(v volumes.Volume) bool { return v.ID == id })
		switch {
		case !ok:
			p.known.volumes.Invalidate()
			return v, fail.New(fail.NotReady, "its root volume %s was deleted while it was made", id).At(machine)
		case v.Status == volumeAvailable:
			return v, nil
		case !usable(v.Status):
			return v, fail.New(fail.NotReady, "its root volume %s is in state %s; Cinder could not make it", id, v.Status).At(machine)
		case time.Now().After(limit):
			return v, fail.New(fail.Refused, "its root volume %s is still %s after %s", id, v.Status, p.opts.Timeouts.Volume).At(machine).
				Do("Cinder is slow or stuck (is its volume service running?); apply again later: the volume is taken over or replaced; a longer spec.timeouts.machineBoot gives it more time")
		}
		progress.Status("root volume is %s", v.Status)
		if err := p.known.volumes.Next(ctx, p.opts.Timeouts.Poll, nil); err != nil {
			return v, err
		}
	}
}

// errHeld reports a root volume that can't be used or removed, because a killed run requested a server with it, and Nova shows that server now or soon.
type errHeld struct{ volume, machine string }

// Error names both.
func (e *errHeld) Error() string {
	return "volume " + e.volume + " belongs to a server of " + e.machine + " that an interrupted run had asked for"
}

// heldLate returns *errHeld if Nova shows a server of a volume's machine by now.
func (p *Provider) heldLate(ctx context.Context, v volumes.Volume) error {
	p.known.servers.Invalidate()
	if err := p.known.servers.Fresh(ctx); err != nil {
		return err
	}
	machine := v.Metadata[marks.Underscored(marks.KeyMachine)]
	if _, ok := p.serverOf(machine); ok {
		return &errHeld{v.ID, machine}
	}
	return nil
}

// takenLate returns *errHeld if a root volume that was free is in use by now, by a server that Nova will show.
func (p *Provider) takenLate(ctx context.Context, id, machine string) error {
	p.known.volumes.Invalidate()
	if err := p.known.volumes.Fresh(ctx); err != nil {
		return err
	}
	v, ok := p.known.volumes.Find(func(v volumes.Volume) bool { return v.ID == id })
	if !ok || usable(v.Status) {
		return nil
	}
	return &errHeld{id, machine}
}

// removeVolumes deletes volumes and waits until they are gone. Cinder returns 400 for a volume that is still attached or changing.
// removeVolumes returns *errHeld if a volume belongs to a previously unknown server.
func (p *Provider) removeVolumes(ctx context.Context, all []volumes.Volume, progress plan.Progress) error {
	if len(all) == 0 {
		return nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	limit := time.Now().Add(p.opts.Timeouts.Delete)
	asked := map[string]bool{}
	for {
		left := 0
		var last error
		for _, old := range all {
			v, ok := p.known.volumes.Find(func(v volumes.Volume) bool { return v.ID == old.ID })
			if !ok {
				continue
			}
			left++
			progress.Status("removing volume %s, which is %s", v.ID, v.Status)
			if v.Status == volumeDeleting || asked[v.ID] {
				continue
			}
			switch err := volumes.Delete(ctx, c.Volume, v.ID, nil).ExtractErr(); {
			case cloud.Gone(err):
				p.known.volumes.Drop(v.ID)
			case err == nil:
				asked[v.ID] = true
			case cloud.Status(err) == 400 || cloud.Status(err) == 409:
				last = cloud.Wrap(err, "remove volume %s", v.ID)
				if err := p.heldLate(ctx, v); err != nil {
					return err
				}
			default:
				p.known.volumes.Invalidate()
				return cloud.Wrap(err, "remove volume %s", v.ID)
			}
		}
		switch {
		case left == 0:
			return nil
		case time.Now().After(limit) && last != nil:
			return fail.Wrap(fail.Refused, last, "%s can't be removed", cloud.Count(left, "volume")).Do("see openstack volume show; run the same again later")
		case time.Now().After(limit):
			return fail.New(fail.Refused, "%s: still there %s after the request to delete it", all[0].ID, p.opts.Timeouts.Delete).
				Do("see openstack volume show; run the same again later")
		}
		if err := p.known.volumes.Next(ctx, p.opts.Timeouts.Poll, nil); err != nil {
			return err
		}
	}
}
