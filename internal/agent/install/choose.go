package install

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// Choose returns the disk that an order's rule names. ours says which disks Naupegos has installed before: they go before others, so that a
// machine never has two systems. fail.Refused says of each disk why it is not the one.
func Choose(o *order.Order, disks []facts.Disk, ours func(facts.Disk) bool) (facts.Disk, error) {
	var fit []facts.Disk
	var why []string
	for _, d := range disks {
		if reason := unfit(o, d, ours(d)); reason != "" {
			why = append(why, fmt.Sprintf("%s (serial number %q) %s", d.Path, d.Serial, reason))
			continue
		}
		fit = append(fit, d)
	}
	if len(fit) == 0 {
		if len(why) == 0 {
			why = []string{"the machine has none"}
		}
		return facts.Disk{}, fail.New(fail.Refused, "there is no disk for the system: %s", strings.Join(why, "; ")).At(o.UUID).
			Do("name a disk by its serial number in the order, or agree to a foreign one being overwritten: naupegos machine install --disk SERIAL --wipe SERIAL")
	}
	if o.Disk.Serial != "" && len(fit) > 1 {
		return facts.Disk{}, fail.New(fail.Refused, "%d disks have the serial number %s", len(fit), o.Disk.Serial).At(o.UUID).Do("they can't be told apart: take all but one out")
	}
	return slices.MinFunc(fit, func(a, b facts.Disk) int {
		if x, y := ours(a), ours(b); x != y {
			if x {
				return -1
			}
			return 1
		}
		if a.SizeBytes != b.SizeBytes {
			if a.SizeBytes < b.SizeBytes {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Serial+a.Path, b.Serial+b.Path)
	}), nil
}

// unfit says why a disk can't be the system's; empty if it can.
func unfit(o *order.Order, d facts.Disk, ours bool) string {
	needs := max(slots.Needs(o.Slot()), o.Disk.MinBytes)
	switch {
	case d.Serial != "" && slices.Contains(o.Data, d.Serial):
		return "is a data disk"
	case o.Disk.Serial != "" && d.Serial != o.Disk.Serial:
		return "is another one than " + o.Disk.Serial
	case d.Removable && o.Disk.Serial == "":
		return "can be taken out"
	case d.SizeBytes < needs:
		return fmt.Sprintf("has %d MiB, and %d are needed", d.SizeBytes>>20, needs>>20)
	case len(d.Holds) > 0 && !ours && (d.Serial == "" || !slices.Contains(o.Disk.Consent, d.Serial)):
		return "holds " + strings.Join(d.Holds, ", ") + ", which is not ours"
	}
	return ""
}
