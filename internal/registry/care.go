package registry

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	labelForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	valueForm = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// Rename gives a machine a name; an empty name removes it.
func (r *Registry) Rename(ctx context.Context, uuid, name string) (*Machine, error) {
	if name != "" && !nameForm.MatchString(name) {
		return nil, fail.New(fail.Invalid, "%q is not a name for a machine", name).Do("use lower-case letters, digits and hyphens, at most 63")
	}
	_, notUUID := facts.ParseUUID(name)
	if _, notMAC := facts.ParseMAC(name); notUUID == nil || notMAC == nil {
		return nil, fail.New(fail.Invalid, "%q is not a name for a machine: it has the form of a UUID or a MAC address, and would be taken for another machine", name).
			Do("choose another name")
	}
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, _ *Record) error {
		d.Name = name
		d.Note("named", name)
		return nil
	})
}

// Label sets labels of a machine, and removes those in without.
func (r *Registry) Label(ctx context.Context, uuid string, set map[string]string, without []string) (*Machine, error) {
	for k, v := range set {
		if strings.IndexByte(k, '/') > 253 || !labelForm.MatchString(k) || !valueForm.MatchString(v) {
			return nil, fail.New(fail.Invalid, "%q is not a label", k+"="+v).Do("labels have the form of Kubernetes' ones: rack=r12, example.org/site=north")
		}
	}
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, _ *Record) error {
		maps.Copy(d.Labels, set)
		for _, k := range without {
			delete(d.Labels, k)
		}
		for _, k := range slices.Sorted(maps.Keys(set)) {
			d.Note("labelled", k+"="+set[k])
		}
		return nil
	})
}

// Maintain puts a machine into maintenance for a reason; an empty reason ends it.
func (r *Registry) Maintain(ctx context.Context, uuid, why string) (*Machine, error) {
	if len(why) > 500 {
		return nil, fail.New(fail.Invalid, "the reason has more than 500 bytes")
	}
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		rec.Maintenance = why
		if why == "" {
			d.Note("maintenance ended", "")
		} else {
			d.Note("in maintenance", why)
		}
		return nil
	})
}

// Reinstall allows reinstalling a machine, after success or failures. wipe names disks that may be overwritten despite foreign content, in addition
// to those of an order that was not carried out.
func (r *Registry) Reinstall(ctx context.Context, uuid string, wipe []string, by string) (*Machine, error) {
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		if !rec.Installed.IsZero() && rec.Failures < r.o.InstallRetries { // a failed machine may always be reinstalled
			if err := r.inUse(ctx, uuid, "install it again", d.Claim, rec); err != nil {
				return err
			}
		}
		note := "by " + by
		if len(wipe) > 0 {
			if rec.Order == nil {
				return fail.New(fail.Invalid, "no installation is ordered for the machine, so there is no disk to wipe").At(uuid).Do("naupegos machine install %s --wipe SERIAL", uuid)
			}
			o := *rec.Order
			o.Disk.Consent = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.Disk.Consent, wipe))))
			if err := cmp.Or(o.Check(), hasDisks(d.Facts, rec.Order, &o)); err != nil {
				return err
			}
			rec.Order, note = &o, note+", with consent to overwrite "+strings.Join(wipe, ", ")
		}
		rec.Reinstall, rec.Failures = true, 0
		d.Note("to be reinstalled", note)
		return nil
	})
}

// Keep cancels a machine's reinstallation if it has not begun.
func Keep(ctx context.Context, r *Registry, uuid, by string) (*Machine, error) {
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		switch {
		case !rec.Reinstall:
			return fail.New(fail.Conflict, "the machine is not to be reinstalled").At(uuid)
		case rec.Installed.IsZero():
			return fail.New(fail.Refused, "the machine was never installed: it has nothing to keep").At(uuid)
		case rec.Failures > 0 || State(d.State) == Granted:
			return fail.New(fail.Refused, "the installation has begun: the disk may be overwritten already").At(uuid).Do("wait until the machine is installed")
		}
		rec.Reinstall = false
		d.Note("not to be reinstalled", "by "+by)
		return nil
	})
}

// Want sets the digest that a machine should report.
func (r *Registry) Want(ctx context.Context, uuid, digest string) (*Machine, error) {
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		if rec.Wanted != digest {
			rec.Wanted = digest
			d.Note("should report", digest)
		}
		return nil
	})
}
