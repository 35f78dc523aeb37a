package registry

import (
	"context"
	"regexp"
	"slices"
	"strings"

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
		if want.Holder, want.Detail = m.UUID, m.Title(); holder != m.UUID { // it may have asked before it was known by that ID
			if _, err := r.store.Give(ctx, want.Group, holder); err != nil {
				return false, nil, err
			}
		}
		if m.Claim.Cluster == group {
			want.Cluster = cluster
		}
	}
	return r.store.Take(ctx, want)
}

// Unlock gives a holder's place back.
func (r *Registry) Unlock(ctx context.Context, group, holder string) (held bool, err error) {
	m, err := r.lockable(ctx, group, holder)
	if err != nil {
		return false, err
	}
	held, err = r.store.Give(ctx, rebootPrefix+group, holder)
	if err == nil && m != nil && m.UUID != holder {
		var own bool
		own, err = r.store.Give(ctx, rebootPrefix+group, m.UUID)
		held = held || own
	}
	return held, err
}

// Release takes a place away from whoever holds it, by the names that Holders shows: for a holder that never will come back.
func (r *Registry) Release(ctx context.Context, group, holder string) (held bool, err error) {
	return r.store.Give(ctx, group, holder)
}

// lockable checks names, and returns the machine that the holder is; nil where it is none that is known.
func (r *Registry) lockable(ctx context.Context, group, holder string) (*Machine, error) {
	if !groupForm.MatchString(group) {
		return nil, fail.New(fail.Invalid, "a group's name has letters, digits, dots and hyphens, at most 64")
	}
	if holder == "" || len(holder) > 256 {
		return nil, fail.New(fail.Invalid, "a holder needs an ID of at most 256 bytes")
	}
	m, _, err := r.HolderOf(ctx, holder)
	return m, err
}

// LockLabel is the label with the ID by which a machine asks whether it may reboot, where that is not its UUID: Zincati's comes from the system's
// machine ID, which nobody else knows.
const LockLabel = "fleetlock-id"

// HolderOf returns the machine that an ID of a holder is: its UUID, with or without hyphens, or what an operator has written into its LockLabel.
// The latter stands for the machine's key, for whoever has it there can show no certificate. nil where it is none that is known.
func (r *Registry) HolderOf(ctx context.Context, id string) (m *Machine, byLabel bool, err error) {
	text := id
	if len(id) == 32 { // as Zincati writes its identity.node_uuid
		text = strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	}
	if uuid, err := facts.ParseUUID(text); err == nil {
		m, err := r.Selected(ctx, facts.Selector{UUID: uuid})
		if fail.KindOf(err) != fail.NotFound {
			return m, false, err
		}
	}
	if !valueForm.MatchString(id) {
		return nil, false, nil
	}
	all, _, err := r.Find(ctx, metal.Query{Labels: map[string]string{LockLabel: id}})
	switch {
	case err != nil || len(all) == 0:
		return nil, false, err
	case len(all) > 1:
		return nil, false, fail.New(fail.Conflict, "the machines %s and %s have the same label %s", all[0].Title(), all[1].Title(), LockLabel).
			Do("naupegos machine label takes it away from those that don't give this ID")
	}
	return &all[0], true, nil
}

// Holders returns who has places: to be installed, or to reboot.
func (r *Registry) Holders(ctx context.Context) ([]metal.Slot, error) { return r.store.Slots(ctx, "") }
