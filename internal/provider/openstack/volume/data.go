package volume

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
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// extendMicroversion is Cinder's first version, of OpenStack Pike (2017), that extends attached volumes.
const extendMicroversion = "3.42"

// Name returns the document's name of a volume; empty for a root volume.
func Name(v volumes.Volume) string { return v.Metadata[marks.Underscored(marks.KeyVolume)] }

// DataOf lists the additional volumes of a machine.
func (k *Keeper) DataOf(machine string) []volumes.Volume {
	return slices.DeleteFunc(k.Of(machine), func(v volumes.Volume) bool { return Name(v) == "" })
}

// Data finds an additional volume of a machine: if there are several of the name, the attached one.
func (k *Keeper) Data(machine, name string) (volumes.Volume, bool) {
	all := slices.DeleteFunc(k.DataOf(machine), func(v volumes.Volume) bool { return Name(v) != name || v.Status == Deleting })
	if len(all) == 0 {
		return volumes.Volume{}, false
	}
	v, _ := cache.Best(all, func(v volumes.Volume) int { return len(v.Attachments) })
	return v, true
}

// AttachedTo reports whether a volume is attached to a server.
func AttachedTo(v volumes.Volume, server string) bool {
	return slices.ContainsFunc(v.Attachments, func(a volumes.Attachment) bool { return a.ServerID == server })
}

// Lacks describes how the additional volumes of a running machine differ from the wanted ones, except surplus volumes.
func (k *Keeper) Lacks(m provider.MachineSpec) []string {
	s, ok := k.opts.Server(m.Name)
	if !ok {
		return nil
	}
	var out []string
	for _, want := range k.shape(m).Volumes {
		switch v, ok := k.Data(m.Name, want.Name); {
		case !ok:
			out = append(out, fmt.Sprintf("it has no volume %s of %d GiB", want.Name, want.SizeGiB))
		case !AttachedTo(v, s.ID):
			out = append(out, "volume "+want.Name+" is not attached")
		case v.Size < want.SizeGiB:
			out = append(out, fmt.Sprintf("volume %s has %d GiB, %d are wanted", want.Name, v.Size, want.SizeGiB))
		}
	}
	return out
}

// Check refuses to shrink volumes, which Cinder can't.
func (k *Keeper) Check() error {
	for _, m := range k.opts.Cluster.Machines() {
		for _, want := range k.opts.Cluster.Shape(string(m.Role), m.Pool).Volumes {
			if v, ok := k.Data(m.Name, want.Name); ok && v.Size > want.SizeGiB {
				return fail.New(fail.Refused, "volume %s of %s has %d GiB, and can't shrink to %d", want.Name, m.Name, v.Size, want.SizeGiB).
					At("machine.volumes").Do("set its size back, or name another volume and remove this one")
			}
		}
	}
	return nil
}

// EnsureData creates, attaches and extends the additional volumes of a machine that runs.
func (k *Keeper) EnsureData(ctx context.Context, m provider.MachineSpec, s servers.Server, progress plan.Progress) error {
	for _, want := range k.shape(m).Volumes {
		v, ok := k.Data(m.Name, want.Name)
		if !ok {
			progress.Status("requesting volume %s", want.Name)
			var err error
			if v, err = k.createData(ctx, m, want); err != nil {
				return err
			}
		}
		v, err := k.settleData(ctx, m.Name, v.ID, progress)
		if err != nil {
			return err
		}
		c, err := k.opts.Cloud(ctx)
		if err != nil {
			return err
		}
		if !AttachedTo(v, s.ID) {
			_, err := volumeattach.Create(ctx, c.Compute, s.ID, volumeattach.CreateOpts{VolumeID: v.ID, DeleteOnTermination: true}).Extract()
			k.opts.Known.Invalidate()
			if err != nil {
				return cloud.Wrap(err, "attach volume %s to %s", want.Name, m.Name)
			}
			if v, err = k.settleData(ctx, m.Name, v.ID, progress); err != nil {
				return err
			}
		}
		if v.Size >= want.SizeGiB {
			continue
		}
		cinder := *c.Volume
		cinder.Microversion = extendMicroversion
		err = volumes.ExtendSize(ctx, &cinder, v.ID, volumes.ExtendSizeOpts{NewSize: want.SizeGiB}).ExtractErr()
		k.opts.Known.Invalidate()
		if err != nil {
			return cloud.Wrap(err, "extend volume %s of %s to %d GiB", want.Name, m.Name, want.SizeGiB)
		}
		if _, err := k.settleData(ctx, m.Name, v.ID, progress); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) createData(ctx context.Context, m provider.MachineSpec, want v1alpha1.MachineVolume) (volumes.Volume, error) {
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return volumes.Volume{}, err
	}
	cinder, err := c.BlockStorage()
	if err != nil {
		return volumes.Volume{}, err
	}
	place, err := k.opts.Existing.VolumeZoneFor(ctx, existing.Zone(k.shape(m), m.Index))
	if err != nil {
		return volumes.Volume{}, err
	}
	meta := k.opts.Names.Metadata(m)
	meta[marks.Underscored(marks.KeyVolume)] = want.Name
	v, err := volumes.Create(ctx, cinder, volumes.CreateOpts{
		Name: m.Name + "-" + want.Name, Size: want.SizeGiB, VolumeType: want.Type, AvailabilityZone: place, Metadata: meta,
	}, nil).Extract()
	return cache.Made(k.opts.Known, v, err, "make volume %s of %s", want.Name, m.Name)
}

// settleData waits until a volume is free or attached.
func (k *Keeper) settleData(ctx context.Context, machine, id string, progress plan.Progress) (volumes.Volume, error) {
	limit := time.Now().Add(k.opts.Timeouts.Volume)
	for {
		if err := k.opts.Known.Fresh(ctx); err != nil {
			return volumes.Volume{}, err
		}
		v, ok := k.opts.Known.Find(func(v volumes.Volume) bool { return v.ID == id })
		switch {
		case !ok:
			return v, fail.New(fail.NotReady, "its volume %s was deleted while it was made", id).At(machine)
		case v.Status == Available || v.Status == inUse:
			return v, nil
		case !slices.Contains([]string{creating, extending, "attaching", "reserved", "detaching"}, v.Status):
			return v, fail.New(fail.Refused, "its volume %s (%s) is in state %s", Name(v), id, v.Status).At(machine).
				Do("see openstack volume show; delete it, and apply again makes another one")
		case time.Now().After(limit):
			return v, fail.New(fail.Refused, "its volume %s (%s) is still %s after %s", Name(v), id, v.Status, k.opts.Timeouts.Volume).At(machine).
				Do("Cinder is slow or stuck; apply again later goes on waiting")
		}
		progress.Status("volume %s is %s", Name(v), v.Status)
		if err := k.opts.Known.Next(ctx, k.opts.Timeouts.Poll, nil); err != nil {
			return v, err
		}
	}
}

// SurplusPlan returns the step that removes the additional volumes which the document no longer wants of wanted machines; nil if there are none.
func (k *Keeper) SurplusPlan(want provider.Wanted) *plan.Step {
	var surplus []volumes.Volume
	s := &plan.Step{
		ID: "surplus-volumes", Action: plan.Destroy, Subject: "cluster", Reason: "the document no longer names them", Consent: provider.ConsentVolumes,
		Timeout: 2*k.opts.Timeouts.Delete + time.Minute,
	}
	for _, m := range want.Machines {
		for _, v := range k.DataOf(m.Name) {
			named := func(w v1alpha1.MachineVolume) bool { return w.Name == Name(v) }
			if v.Status != Deleting && !slices.ContainsFunc(k.shape(m).Volumes, named) {
				surplus = append(surplus, v)
				s.Details = append(s.Details, lost(v, m.Name))
			}
		}
	}
	if len(surplus) == 0 {
		return nil
	}
	s.Title = "remove " + cloud.Count(len(surplus), "volume")
	s.Run = func(ctx context.Context, progress plan.Progress) error {
		return k.removeData(ctx, surplus, progress)
	}
	return s
}

// Lost describes the additional volumes that go with a machine.
func (k *Keeper) Lost(machine string) []string {
	var out []string
	for _, v := range k.DataOf(machine) {
		out = append(out, lost(v, machine))
	}
	return out
}

// lost describes a volume that is removed.
func lost(v volumes.Volume, machine string) string {
	return fmt.Sprintf("volume %s of %s: %d GiB, with everything on it", Name(v), machine, v.Size)
}

// removeData detaches volumes from their servers, and deletes them.
func (k *Keeper) removeData(ctx context.Context, all []volumes.Volume, progress plan.Progress) error {
	if err := cache.Fresh(ctx, k.opts.Known, k.opts.Servers); err != nil {
		return err
	}
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return err
	}
	for _, old := range all {
		v, ok := k.opts.Known.Find(func(v volumes.Volume) bool { return v.ID == old.ID })
		if !ok {
			continue
		}
		for _, a := range v.Attachments {
			progress.Status("detaching volume %s", Name(v))
			err := volumeattach.Delete(ctx, c.Compute, a.ServerID, v.ID).ExtractErr()
			if err := cloud.UnlessGone(err); err != nil && cloud.Status(err) != 409 { // 409: it is being detached
				return cloud.Wrap(err, "detach volume %s of %s", Name(v), v.Name)
			}
		}
		if len(v.Attachments) == 0 {
			continue
		}
		k.opts.Known.Invalidate()
		limit := time.Now().Add(k.opts.Timeouts.Delete)
		for {
			if err := k.opts.Known.Next(ctx, k.opts.Timeouts.Poll, nil); err != nil {
				return err
			}
			now, ok := k.opts.Known.Find(func(v volumes.Volume) bool { return v.ID == old.ID })
			if !ok || now.Status == Available {
				break
			}
			if time.Now().After(limit) {
				return fail.New(fail.Refused, "volume %s (%s) is still %s %s after the request to detach it", v.Name, v.ID, now.Status, k.opts.Timeouts.Delete).
					Do("its machine may still use it: unmount it there, and apply again")
			}
		}
	}
	return k.Remove(ctx, all, progress)
}
