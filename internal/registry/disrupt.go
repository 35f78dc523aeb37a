package registry

import (
	"context"
	"regexp"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Strategy says how a machine takes an update.
type Strategy struct {
	Kind     string `json:"strategy,omitempty"` // one of Strategies; empty: none was chosen
	Disabled bool   `json:"disabled,omitempty"` // it was, and doesn't count now
}

// Strategies are those by which a machine can take an update.
func Strategies() []string { return []string{"kexec", "live", "none", "poweroff", "reboot"} }

// SetStrategy chooses a strategy; the empty kind disables the one that was chosen.
func (r *Registry) SetStrategy(ctx context.Context, uuid, kind string) (*Machine, error) {
	if kind != "" && !slices.Contains(Strategies(), kind) {
		return nil, fail.New(fail.Invalid, "there is no strategy %q", kind).Do("it is one of %v", Strategies())
	}
	return r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		if kind == "" {
			rec.Strategy.Disabled = rec.Strategy.Kind != ""
			d.Note("takes no updates", "")
			return nil
		}
		rec.Strategy = Strategy{Kind: kind}
		d.Note("takes updates by", kind)
		return nil
	})
}

// rebootPrefix is before the names of groups of machines that may reboot.
const rebootPrefix = "reboot/"

var groupForm = regexp.MustCompile(`^[A-Za-z0-9.-]{1,64}$`)

// Lock lets a holder reboot, if no more of its group do than may. A group of a cluster's name heeds the cluster's lease: nobody reboots while
// a verb changes the cluster. No verb begins while a machine that is the cluster's may reboot; for others none waits, because anybody on the
// network can say that they want to. who are those that hold places.
func (r *Registry) Lock(ctx context.Context, group, holder string) (granted bool, who []metal.Slot, err error) {
	m, err := r.lockable(ctx, group, holder)
	if err != nil {
		return false, nil, err
	}
	want := metal.Want{Group: rebootPrefix + group, Holder: holder, Detail: holder, Bound: r.o.Reboots}
	cluster := ""
	if r.o.Clusters != nil {
		if cluster, err = r.o.Clusters.ClusterID(ctx, group); err != nil {
			return false, nil, err
		}
	}
	want.Heeds = cluster
	if m != nil {
		want.Detail = m.Title()
		if m.Claim.Cluster == group {
			want.Cluster = cluster
		}
	}
	return r.store.Take(ctx, want)
}

// Unlock gives a holder's place back.
func (r *Registry) Unlock(ctx context.Context, group, holder string) (held bool, err error) {
	if _, err := r.lockable(ctx, group, holder); err != nil {
		return false, err
	}
	return r.store.Give(ctx, rebootPrefix+group, holder)
}

// Release takes a place away from whoever holds it, by the names that Holders shows: for a holder that never will come back.
func (r *Registry) Release(ctx context.Context, group, holder string) (held bool, err error) {
	return r.store.Give(ctx, group, holder)
}

// lockable checks names, and returns the machine whose UUID the holder is; nil where it is none that is known.
func (r *Registry) lockable(ctx context.Context, group, holder string) (*Machine, error) {
	if !groupForm.MatchString(group) {
		return nil, fail.New(fail.Invalid, "a group's name has letters, digits, dots and hyphens, at most 64")
	}
	if holder == "" || len(holder) > 256 {
		return nil, fail.New(fail.Invalid, "a holder needs an ID of at most 256 bytes")
	}
	uuid, err := facts.ParseUUID(holder)
	if err != nil {
		return nil, nil // Zincati's IDs are none
	}
	m, err := r.Selected(ctx, facts.Selector{UUID: uuid})
	if fail.KindOf(err) == fail.NotFound {
		return nil, nil
	}
	return m, err
}

// Holders returns who has places: to be installed, or to reboot.
func (r *Registry) Holders(ctx context.Context) ([]metal.Slot, error) { return r.store.Slots(ctx, "") }
