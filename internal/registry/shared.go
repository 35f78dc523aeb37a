package registry

import (
	"context"
	"encoding/json"
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
		return fail.Wrap(fail.Internal, err, "read what the machine has reported").At(o.UUID)
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
	if known.Disks == nil || len(missing) == 0 {
		return nil
	}
	return fail.New(fail.Invalid, "the machine has no disk with the serial number or WWID %s; it has reported %s", strings.Join(missing, ", "), facts.DiskTitles(known.Disks)).At(o.UUID).
		Do("name a disk as naupegos machine show %s does; where the disk is new, have the machine boot the discovery image first", o.UUID)
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
