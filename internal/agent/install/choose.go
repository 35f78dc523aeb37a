package install

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// Choose returns the disk that an order's rule selects. owner returns the owner of a disk's system: the machine's own disk has precedence, so that a
// machine never has two systems. fail.Refused says why each disk is unsuitable, or which names of the order match no disk.
func Choose(o *order.Order, disks []facts.Disk, owner func(facts.Disk) Owner) (facts.Disk, error) {
	if missing := facts.Missing(disks, o.Names()...); len(missing) > 0 {
		words := strings.Join(missing, ", ")
		if slices.Contains(missing, o.Disk.Serial) {
			words += " (each disk is another one than " + o.Disk.Serial + ")"
		}
		return facts.Disk{}, fail.New(fail.Refused, "the order names disks that the machine does not have: %s; it has %s", words, facts.DiskTitles(disks)).At(o.UUID).
			Do("order the installation with serial numbers or WWIDs that the machine reports: naupegos machine show %s", o.UUID)
	}
	var fit []facts.Disk
	var why []string
	for _, d := range disks {
		if reason := unfit(o, disks, d, owner(d)); reason != "" {
			why = append(why, d.Title()+" "+reason)
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
		return facts.Disk{}, fail.New(fail.Refused, "%d disks have the serial number %s: %s", len(fit), o.Disk.Serial, facts.DiskTitles(fit)).At(o.UUID).
			Do("name one by its WWID; where they have none, they can't be told apart: take all but one out")
	}
	for _, whose := range []Owner{Owner(o.UUID), Unknown} {
		var own []facts.Disk
		for _, d := range fit {
			if owner(d) == whose {
				own = append(own, d)
			}
		}
		switch {
		case len(own) == 1:
			return own[0], nil
		case len(own) > 1:
			return facts.Disk{}, fail.New(fail.Refused, "%d disks hold a system of Naupegos that may be this machine's: %s", len(own), facts.DiskTitles(own)).At(o.UUID).
				Do("name the system's: naupegos machine install --disk SERIAL; another one that holds nothing of use is to be taken out or emptied")
		}
	}
	return slices.MinFunc(fit, func(a, b facts.Disk) int {
		return cmp.Or(cmp.Compare(a.SizeBytes, b.SizeBytes), strings.Compare(a.Serial+a.Path, b.Serial+b.Path))
	}), nil
}

// mayOverwrite reports whether an order permits overwriting a disk's content. Another machine's system is as foreign as any other content, because
// its etcd may still be needed.
func mayOverwrite(o *order.Order, all []facts.Disk, d facts.Disk, owner Owner) bool {
	return owner == Unknown || owner == Owner(o.UUID) || facts.Consents(all, d, o.Disk.Consent)
}

// unfit returns why a disk can't hold the system, or "" if it can.
func unfit(o *order.Order, all []facts.Disk, d facts.Disk, owner Owner) string {
	needs := max(slots.Needs(o.Slot()), o.Disk.MinBytes)
	switch {
	case d.IsAny(o.Data) || d.IsAny(o.Elsewhere):
		return "is a data disk"
	case o.Disk.Serial != "" && !d.Is(o.Disk.Serial):
		return "is another one than " + o.Disk.Serial
	case d.Obstacle() != "":
		return d.Obstacle()
	case d.Unasked() != "" && o.Disk.Serial == "":
		return d.Unasked()
	case d.SizeBytes < needs:
		return fmt.Sprintf("has %d MiB, and %d are needed", d.SizeBytes>>20, needs>>20)
	case len(d.Holds) > 0 && owner != Foreign && !mayOverwrite(o, all, d, owner):
		return "holds the system of machine " + string(owner) + facts.Ambiguous(all, d, o.Disk.Consent)
	case len(d.Holds) > 0 && !mayOverwrite(o, all, d, owner):
		return "holds " + strings.Join(d.Holds, ", ") + ", which is not ours" + facts.Ambiguous(all, d, o.Disk.Consent)
	}
	return ""
}
