package volume

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
	"github.com/naupegos/naupegos/internal/provider/openstack/existing"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// RootsOf lists the root volumes of a machine: one, or more after an interrupted run.
func (k *Keeper) RootsOf(machine string) []volumes.Volume {
	return slices.DeleteFunc(k.Of(machine), func(v volumes.Volume) bool { return Name(v) != "" })
}

// Of lists the volumes of a machine.
func (k *Keeper) Of(machine string) []volumes.Volume {
	return k.opts.Known.Filter(func(v volumes.Volume) bool { return v.Metadata[marks.Underscored(marks.KeyMachine)] == machine })
}

// Plan returns the step that requests the root volumes of all new machines at once: Cinder fills them while the network is made. It is
// nil if none has a root volume.
func (k *Keeper) Plan(fresh []provider.MachineSpec) *plan.Step {
	var want []provider.MachineSpec
	var details []string
	for _, m := range fresh {
		if size := k.shape(m).RootVolume(); size > 0 && k.hasNothing(m.Name) {
			want = append(want, m)
			details = append(details, fmt.Sprintf("root volume of %s: %d GiB", m.Name, size))
		}
	}
	if len(want) == 0 {
		return nil
	}
	return &plan.Step{
		ID: Step, Action: plan.Create, Title: "request " + cloud.Count(len(want), "root volume"), Subject: "cluster",
		Reason: "their machines do not exist", Details: details, Timeout: k.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error { return k.askFor(ctx, want, progress) },
	}
}

// hasNothing reports whether a machine has neither server nor volume. The machine's own step adopts or removes existing ones.
func (k *Keeper) hasNothing(machine string) bool {
	return !k.opts.HasServer(machine) && len(k.RootsOf(machine)) == 0
}

// askFor requests root volumes without waiting for them.
func (k *Keeper) askFor(ctx context.Context, want []provider.MachineSpec, progress plan.Progress) error {
	if err := cache.Fresh(ctx, k.opts.Servers, k.opts.Known); err != nil {
		return err
	}
	progress.Status("requesting %s", cloud.Count(len(want), "root volume"))
	var g errgroup.Group // without a shared context, so that a failure does not interrupt other requests, whose volumes would appear late
	g.SetLimit(cloud.MaxCalls)
	for _, m := range want {
		if !k.hasNothing(m.Name) {
			continue
		}
		g.Go(func() error {
			_, err := k.Create(ctx, m)
			return err
		})
	}
	return g.Wait()
}

// Ensure returns the root volume of a new machine, ready for use: one from an interrupted run if it is intact and as wanted, else a new
// one. It removes the others.
func (k *Keeper) Ensure(ctx context.Context, m provider.MachineSpec, progress plan.Progress) (volumes.Volume, error) {
	mark := marks.Shape(k.shape(m))
	var fit, rest []volumes.Volume
	for _, v := range k.RootsOf(m.Name) {
		if v.Metadata[marks.Underscored(marks.KeyShape)] == mark && len(fit) == 0 && usable(v.Status) {
			fit = append(fit, v)
		} else {
			rest = append(rest, v)
		}
	}
	if err := k.Remove(ctx, rest, progress); err != nil {
		return volumes.Volume{}, err
	}
	if len(fit) == 0 {
		v, err := k.Create(ctx, m)
		if err != nil {
			return v, err
		}
		fit = append(fit, v)
	}
	return k.wait(ctx, m.Name, fit[0].ID, progress)
}

// usable reports whether a volume in this status can, or will soon, serve as a root volume.
func usable(status string) bool {
	switch status {
	case Available, "creating", "downloading":
		return true
	}
	return false
}

func (k *Keeper) Create(ctx context.Context, m provider.MachineSpec) (volumes.Volume, error) {
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return volumes.Volume{}, err
	}
	cinder, err := c.BlockStorage()
	if err != nil {
		return volumes.Volume{}, err
	}
	shape := k.shape(m)
	image, err := k.opts.Existing.Image(ctx, shape.Image)
	if err != nil {
		return volumes.Volume{}, err
	}
	place, err := k.opts.Existing.VolumeZoneFor(ctx, existing.Zone(shape, m.Index))
	if err != nil {
		return volumes.Volume{}, err
	}
	meta := k.opts.Names.Metadata(m)
	meta[marks.Underscored(marks.KeyShape)] = marks.Shape(shape)
	v, err := volumes.Create(ctx, cinder, volumes.CreateOpts{
		Name: m.Name, Size: shape.RootVolume(), ImageID: image.ID, VolumeType: shape.RootVolumeType, AvailabilityZone: place, Metadata: meta,
	}, nil).Extract()
	return cache.Made(k.opts.Known, v, err, "make the root volume of %s", m.Name)
}

// wait waits until a volume has its image's content.
func (k *Keeper) wait(ctx context.Context, machine, id string, progress plan.Progress) (volumes.Volume, error) {
	limit := time.Now().Add(k.opts.Timeouts.Volume)
	for {
		v, ok := k.opts.Known.Find(func(v volumes.Volume) bool { return v.ID == id })
		switch {
		case !ok:
			k.opts.Known.Invalidate()
			return v, fail.New(fail.NotReady, "its root volume %s was deleted while it was made", id).At(machine)
		case v.Status == Available:
			return v, nil
		case !usable(v.Status):
			return v, fail.New(fail.NotReady, "its root volume %s is in state %s; Cinder could not make it", id, v.Status).At(machine)
		case time.Now().After(limit):
			return v, fail.New(fail.Refused, "its root volume %s is still %s after %s", id, v.Status, k.opts.Timeouts.Volume).At(machine).
				Do("Cinder is slow or stuck (is its volume service running?); apply again later: the volume is taken over or replaced; a longer spec.timeouts.machineBoot gives it more time")
		}
		progress.Status("root volume is %s", v.Status)
		if err := k.opts.Known.Next(ctx, k.opts.Timeouts.Poll, nil); err != nil {
			return v, err
		}
	}
}

// HeldError reports a root volume that can't be used or removed, because a killed run requested a server with it, and Nova shows that server now or soon.
type HeldError struct{ Volume, Machine string }

// Error names both.
func (e *HeldError) Error() string {
	return "volume " + e.Volume + " belongs to a server of " + e.Machine + " that an interrupted run had asked for"
}

// heldLate returns *HeldError if Nova shows a server of a volume's machine by now.
func (k *Keeper) heldLate(ctx context.Context, v volumes.Volume) error {
	k.opts.Servers.Invalidate()
	if err := k.opts.Servers.Fresh(ctx); err != nil {
		return err
	}
	machine := v.Metadata[marks.Underscored(marks.KeyMachine)]
	if _, ok := k.opts.Server(machine); ok {
		return &HeldError{v.ID, machine}
	}
	return nil
}

// TakenLate returns *HeldError if a root volume that was free is in use by now, by a server that Nova will show.
func (k *Keeper) TakenLate(ctx context.Context, id, machine string) error {
	k.opts.Known.Invalidate()
	if err := k.opts.Known.Fresh(ctx); err != nil {
		return err
	}
	v, ok := k.opts.Known.Find(func(v volumes.Volume) bool { return v.ID == id })
	if !ok || usable(v.Status) {
		return nil
	}
	return &HeldError{id, machine}
}

// Remove deletes volumes and waits until they are gone. Cinder returns 400 for a volume that is still attached or changing.
// Remove returns *HeldError if a volume belongs to a previously unknown server.
func (k *Keeper) Remove(ctx context.Context, all []volumes.Volume, progress plan.Progress) error {
	if len(all) == 0 {
		return nil
	}
	c, err := k.opts.Cloud(ctx)
	if err != nil {
		return err
	}
	limit := time.Now().Add(k.opts.Timeouts.Delete)
	asked := map[string]bool{}
	for {
		left := 0
		var last error
		for _, old := range all {
			v, ok := k.opts.Known.Find(func(v volumes.Volume) bool { return v.ID == old.ID })
			if !ok {
				continue
			}
			left++
			progress.Status("removing volume %s, which is %s", v.ID, v.Status)
			if v.Status == Deleting || asked[v.ID] {
				continue
			}
			switch err := volumes.Delete(ctx, c.Volume, v.ID, nil).ExtractErr(); {
			case cloud.Gone(err):
				k.opts.Known.Drop(v.ID)
			case err == nil:
				asked[v.ID] = true
			case cloud.Status(err) == 400 || cloud.Status(err) == 409:
				last = cloud.Wrap(err, "remove volume %s", v.ID)
				if err := k.heldLate(ctx, v); err != nil {
					return err
				}
			default:
				k.opts.Known.Invalidate()
				return cloud.Wrap(err, "remove volume %s", v.ID)
			}
		}
		switch {
		case left == 0:
			return nil
		case time.Now().After(limit) && last != nil:
			return fail.Wrap(fail.Refused, last, "%s can't be removed", cloud.Count(left, "volume")).Do("see openstack volume show; run the same again later")
		case time.Now().After(limit):
			return fail.New(fail.Refused, "%s: still there %s after the request to delete it", all[0].ID, k.opts.Timeouts.Delete).
				Do("see openstack volume show; run the same again later")
		}
		if err := k.opts.Known.Next(ctx, k.opts.Timeouts.Poll, nil); err != nil {
			return err
		}
	}
}
