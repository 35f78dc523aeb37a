package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// markShared marks network cards with an address that another machine has, too: cards that BMCs present to every server, and cards that were moved.
// They don't identify the machine, and don't prevent its discovery. Two machines with the same boot address remain a conflict.
func (r *Registry) markShared(ctx context.Context, d *facts.Discovery) error {
	for _, mac := range d.MACs()[1:] {
		other, err := r.store.ByMAC(ctx, mac)
		switch {
		case fail.KindOf(err) == fail.NotFound:
		case err != nil:
			return err
		case other.UUID != d.Boot.UUID:
			d.Share(mac, other.UUID)
		}
	}
	return nil
}

// hasDisks refuses an order that names a disk which the machine has not reported. It accepts names from the previous order, because the system stays
// on its disk. If a machine does not report its disks, as some of the older system don't, its agent checks.
func hasDisks(raw []byte, before, o *order.Order) error {
	var known facts.Discovery
	if o == nil || len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &known); err != nil {
		return fail.Wrap(fail.Internal, err, "read the machine's report").At(o.UUID)
	}
	missing := facts.Missing(known.Disks, o.Names()...)
	if before != nil {
		was := map[string]bool{}
		for _, n := range before.Names() {
			was[n] = true
		}
		var fresh []string
		for _, n := range missing {
			if !was[n] {
				fresh = append(fresh, n)
			}
		}
		missing = fresh
	}
	if known.Disks == nil {
		return nil
	}
	if len(missing) == 0 {
		return servable(known.Disks, before, o)
	}
	return fail.New(fail.Invalid, "the machine has no disk with the serial number or WWID %s; it has reported %s", strings.Join(missing, ", "), facts.DiskTitles(known.Disks)).At(o.UUID).
		Do("name a disk as naupegos machine show %s does; if the disk is new, boot the discovery image on the machine first", o.UUID)
}

// servable refuses an order that no disk of the machine can serve, or whose names are ambiguous: the machine would find out after three boots. Content may
// have changed since the report, so that only the machine itself judges it. An order that leaves the disk as it was is about a system that runs.
func servable(disks []facts.Disk, before, o *order.Order) error {
	if before != nil && before.Disk.Serial == o.Disk.Serial && before.Slot() == o.Slot() && before.Disk.MinBytes == o.Disk.MinBytes && slices.Equal(before.Data, o.Data) &&
		slices.Equal(before.Disk.Consent, o.Disk.Consent) {
		return nil
	}
	invalid := func(do, format string, a ...any) error {
		return fail.New(fail.Invalid, format, a...).At(o.UUID).Do("%s", do)
	}
	for _, d := range disks {
		if why := facts.Ambiguous(disks, d, o.Disk.Consent); why != "" {
			return invalid("name each by its WWID", "the consent to overwrite a disk does not say which%s", why)
		}
	}
	var why []string
	fit := 0
	least := max(2*o.Slot(), o.Disk.MinBytes)
	for _, d := range disks {
		switch {
		case o.Disk.Serial != "" && !d.Is(o.Disk.Serial):
			continue
		case d.IsAny(o.Data) || d.IsAny(o.Elsewhere):
			why = append(why, d.Title()+" is a data disk")
		case d.Obstacle() != "":
			why = append(why, d.Title()+" "+d.Obstacle())
		case o.Disk.Serial == "" && d.Unasked() != "":
			why = append(why, d.Title()+" "+d.Unasked())
		case d.SizeBytes < least:
			why = append(why, fmt.Sprintf("%s has %d MiB, and more than %d are needed", d.Title(), d.SizeBytes>>20, least>>20))
		default:
			fit++
		}
	}
	switch {
	case fit > 1 && o.Disk.Serial != "":
		return invalid("name one by its WWID; where they have none, they can't be told apart: take all but one out", "%d disks have the serial number %s: %s", fit, o.Disk.Serial, facts.DiskTitles(disks))
	case fit == 0 && len(disks) > 0:
		return invalid("name another disk: naupegos machine show "+o.UUID+" lists them", "there is no disk for the system: %s", strings.Join(why, "; "))
	}
	return nil
}

// Stock lists all machines with their reported facts.
func (r *Registry) Stock(ctx context.Context) (stock []Machine, err error) {
	err = r.assign(ctx, func(all []Machine) ([]metal.Assigned, error) {
		stock = all
		for i := range stock {
			if stock[i].Facts, err = stock[i].Said(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	return stock, err
}
