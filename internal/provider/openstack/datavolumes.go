package openstack

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// States of a volume that is attached, or changes.
const (
	volumeInUse     = "in-use"
	volumeCreating  = "creating"
	volumeExtending = "extending"
)

// extendMicroversion is Cinder's first version, of OpenStack Pike (2017), that extends attached volumes.
const extendMicroversion = "3.42"

// volumeName returns the document's name of a volume; empty for a root volume.
func volumeName(v volumes.Volume) string { return v.Metadata[marks.Underscored(marks.KeyVolume)] }

// dataVolumesOf lists the additional volumes of a machine.
func dataVolumesOf(p *Provider, machine string) []volumes.Volume {
	return slices.DeleteFunc(everyVolumeOf(p, machine), func(v volumes.Volume) bool { return volumeName(v) == "" })
}

// dataVolume finds an additional volume of a machine: if there are several of the name, the attached one.
func dataVolume(p *Provider, machine, name string) (volumes.Volume, bool) {
	all := slices.DeleteFunc(dataVolumesOf(p, machine), func(v volumes.Volume) bool { return volumeName(v) != name || v.Status == volumeDeleting })
	if len(all) == 0 {
		return volumes.Volume{}, false
	}
	v, _ := cache.Best(all, func(v volumes.Volume) int { return len(v.Attachments) })
	return v, true
}

func attachedTo(v volumes.Volume, server string) bool {
	return slices.ContainsFunc(v.Attachments, func(a volumes.Attachment) bool { return a.ServerID == server })
}

// dataVolumeLacks describes how the additional volumes of a running machine differ from the wanted ones, except surplus volumes.
func dataVolumeLacks(p *Provider, m provider.MachineSpec) []string {
	s, ok := p.serverOf(m.Name)
	if !ok {
		return nil
	}
	var out []string
	for _, want := range p.shape(m.Role, m.Pool).Volumes {
		switch v, ok := dataVolume(p, m.Name, want.Name); {
		case !ok:
			out = append(out, fmt.Sprintf("it has no volume %s of %d GiB", want.Name, want.SizeGiB))
		case !attachedTo(v, s.ID):
			out = append(out, "volume "+want.Name+" is not attached")
		case v.Size < want.SizeGiB:
			out = append(out, fmt.Sprintf("volume %s has %d GiB, %d are wanted", want.Name, v.Size, want.SizeGiB))
		}
	}
	return out
}

// checkDataVolumes refuses to shrink volumes, which Cinder can't.
func checkDataVolumes(p *Provider) error {
	for _, m := range p.opts.Cluster.Machines() {
		for _, want := range p.shape(provider.Role(m.Role), m.Pool).Volumes {
			if v, ok := dataVolume(p, m.Name, want.Name); ok && v.Size > want.SizeGiB {
				return fail.New(fail.Refused, "volume %s of %s has %d GiB, and can't shrink to %d", want.Name, m.Name, v.Size, want.SizeGiB).
					At("machine.volumes").Do("set its size back, or name another volume and remove this one")
			}
		}
	}
	return nil
}

// ensureDataVolumes creates, attaches and extends the additional volumes of a machine that runs.
func ensureDataVolumes(ctx context.Context, p *Provider, m provider.MachineSpec, s servers.Server, progress plan.Progress) error {
	for _, want := range p.shape(m.Role, m.Pool).Volumes {
		v, ok := dataVolume(p, m.Name, want.Name)
		if !ok {
			progress.Status("requesting volume %s", want.Name)
			var err error
			if v, err = createDataVolume(ctx, p, m, want); err != nil {
				return err
			}
		}
		v, err := settleDataVolume(ctx, p, m.Name, v.ID, progress)
		if err != nil {
			return err
		}
		c, err := p.cloud(ctx)
		if err != nil {
			return err
		}
		if !attachedTo(v, s.ID) {
			_, err := volumeattach.Create(ctx, c.Compute, s.ID, volumeattach.CreateOpts{VolumeID: v.ID, DeleteOnTermination: true}).Extract()
			p.known.volumes.Invalidate()
			if err != nil {
				return cloud.Wrap(err, "attach volume %s to %s", want.Name, m.Name)
			}
			if v, err = settleDataVolume(ctx, p, m.Name, v.ID, progress); err != nil {
				return err
			}
		}
		if v.Size >= want.SizeGiB {
			continue
		}
		cinder := *c.Volume
		cinder.Microversion = extendMicroversion
		err = volumes.ExtendSize(ctx, &cinder, v.ID, volumes.ExtendSizeOpts{NewSize: want.SizeGiB}).ExtractErr()
		p.known.volumes.Invalidate()
		if err != nil {
			return cloud.Wrap(err, "extend volume %s of %s to %d GiB", want.Name, m.Name, want.SizeGiB)
		}
		if _, err := settleDataVolume(ctx, p, m.Name, v.ID, progress); err != nil {
			return err
		}
	}
	return nil
}

func createDataVolume(ctx context.Context, p *Provider, m provider.MachineSpec, want v1alpha1.MachineVolume) (volumes.Volume, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return volumes.Volume{}, err
	}
	cinder, err := c.BlockStorage()
	if err != nil {
		return volumes.Volume{}, err
	}
	place, err := p.existing.VolumeZoneFor(ctx, zone(p.shape(m.Role, m.Pool), m.Index))
	if err != nil {
		return volumes.Volume{}, err
	}
	meta := p.n.Metadata(m)
	meta[marks.Underscored(marks.KeyVolume)] = want.Name
	v, err := volumes.Create(ctx, cinder, volumes.CreateOpts{
		Name: m.Name + "-" + want.Name, Size: want.SizeGiB, VolumeType: want.Type, AvailabilityZone: place, Metadata: meta,
	}, nil).Extract()
	return cache.Made(p.known.volumes, v, err, "make volume %s of %s", want.Name, m.Name)
}

// settleDataVolume waits until a volume is free or attached.
func settleDataVolume(ctx context.Context, p *Provider, machine, id string, progress plan.Progress) (volumes.Volume, error) {
	limit := time.Now().Add(p.opts.Timeouts.Volume)
	for {
		if err := p.known.volumes.Fresh(ctx); err != nil {
			return volumes.Volume{}, err
		}
		v, ok := p.known.volumes.Find(func(v volumes.Volume) bool { return v.ID == id })
		switch {
		case !ok:
			return v, fail.New(fail.NotReady, "its volume %s was deleted while it was made", id).At(machine)
		case v.Status == volumeAvailable || v.Status == volumeInUse:
			return v, nil
		case !slices.Contains([]string{volumeCreating, volumeExtending, "attaching", "reserved", "detaching"}, v.Status):
			return v, fail.New(fail.Refused, "its volume %s (%s) is in state %s", volumeName(v), id, v.Status).At(machine).
				Do("see openstack volume show; delete it, and apply again makes another one")
		case time.Now().After(limit):
			return v, fail.New(fail.Refused, "its volume %s (%s) is still %s after %s", volumeName(v), id, v.Status, p.opts.Timeouts.Volume).At(machine).
				Do("Cinder is slow or stuck; apply again later goes on waiting")
		}
		progress.Status("volume %s is %s", volumeName(v), v.Status)
		if err := p.known.volumes.Next(ctx, p.opts.Timeouts.Poll, nil); err != nil {
			return v, err
		}
	}
}

// surplusVolumesPlan returns the step that removes the additional volumes which the document no longer wants of wanted machines; nil if there are none.
func surplusVolumesPlan(p *Provider, want provider.Wanted) *plan.Step {
	var surplus []volumes.Volume
	s := &plan.Step{
		ID: "surplus-volumes", Action: plan.Destroy, Subject: "cluster", Reason: "the document no longer names them", Consent: provider.ConsentVolumes,
		Timeout: 2*p.opts.Timeouts.Delete + time.Minute,
	}
	for _, m := range want.Machines {
		for _, v := range dataVolumesOf(p, m.Name) {
			named := func(w v1alpha1.MachineVolume) bool { return w.Name == volumeName(v) }
			if v.Status != volumeDeleting && !slices.ContainsFunc(p.shape(m.Role, m.Pool).Volumes, named) {
				surplus = append(surplus, v)
				s.Details = append(s.Details, lostVolume(v, m.Name))
			}
		}
	}
	if len(surplus) == 0 {
		return nil
	}
	s.Title = "remove " + cloud.Count(len(surplus), "volume")
	s.Run = func(ctx context.Context, progress plan.Progress) error {
		return removeDataVolumes(ctx, p, surplus, progress)
	}
	return s
}

// lostVolume describes a volume that is removed.
func lostVolume(v volumes.Volume, machine string) string {
	return fmt.Sprintf("volume %s of %s: %d GiB, with everything on it", volumeName(v), machine, v.Size)
}

// removeDataVolumes detaches volumes from their servers, and deletes them.
func removeDataVolumes(ctx context.Context, p *Provider, all []volumes.Volume, progress plan.Progress) error {
	if err := cache.Fresh(ctx, p.known.volumes, p.known.servers); err != nil {
		return err
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return err
	}
	for _, old := range all {
		v, ok := p.known.volumes.Find(func(v volumes.Volume) bool { return v.ID == old.ID })
		if !ok {
			continue
		}
		for _, a := range v.Attachments {
			progress.Status("detaching volume %s", volumeName(v))
			err := volumeattach.Delete(ctx, c.Compute, a.ServerID, v.ID).ExtractErr()
			if err := cloud.UnlessGone(err); err != nil && cloud.Status(err) != 409 { // 409: it is being detached
				return cloud.Wrap(err, "detach volume %s of %s", volumeName(v), v.Name)
			}
		}
		if len(v.Attachments) == 0 {
			continue
		}
		p.known.volumes.Invalidate()
		limit := time.Now().Add(p.opts.Timeouts.Delete)
		for {
			if err := p.known.volumes.Next(ctx, p.opts.Timeouts.Poll, nil); err != nil {
				return err
			}
			now, ok := p.known.volumes.Find(func(v volumes.Volume) bool { return v.ID == old.ID })
			if !ok || now.Status == volumeAvailable {
				break
			}
			if time.Now().After(limit) {
				return fail.New(fail.Refused, "volume %s (%s) is still %s %s after the request to detach it", v.Name, v.ID, now.Status, p.opts.Timeouts.Delete).
					Do("its machine may still use it: unmount it there, and apply again")
			}
		}
	}
	return p.removeVolumes(ctx, all, progress)
}
