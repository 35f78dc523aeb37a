package registry

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Strategy says how a machine takes an update.
type Strategy struct {
	Kind     string `json:"strategy,omitempty"` // one of Strategies; empty: none was chosen
	Disabled bool   `json:"disabled,omitempty"` // the chosen one is not in effect now
}

// Strategies lists the ways in which a machine can take an update.
func Strategies() []string { return []string{"kexec", "live", "none", "poweroff", "reboot"} }

// SetStrategy chooses a strategy; the empty kind disables the chosen one.
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

// rebootPrefix begins the names of reboot groups in the store.
const rebootPrefix = "reboot/"

var groupForm = regexp.MustCompile(`^[A-Za-z0-9.-]{1,64}$`)

// Lock lets a machine reboot if its group has a free place; the place lasts for Options.RebootTTL. who lists the holders of places. The caller
// must have verified the machine's key. The machine must be approved (fail.Unauthorized) and in the group (fail.Refused).
//
// A group with a cluster's name heeds the cluster's lease: no machine reboots while a command changes the cluster, and no command starts while a
// machine of the cluster may reboot.
func (r *Registry) Lock(ctx context.Context, group, uuid string) (granted bool, who []metal.Slot, err error) {
	m, err := r.member(ctx, group, uuid)
	if err != nil {
		return false, nil, err
	}
	return r.take(ctx, group, m.UUID, m.Title(), m)
}

// LockBy is Lock for a client that has shown a group's token and identifies itself by an ID. If the ID is an approved machine of the group, the
// client asks for the machine's place; any other ID gets its own place, which no command waits for.
func (r *Registry) LockBy(ctx context.Context, t *metal.LockToken, id string) (granted bool, who []metal.Slot, err error) {
	holder, m, err := r.client(ctx, t, id)
	if err != nil {
		return false, nil, err
	}
	title := id
	if m != nil {
		title = m.Title()
	}
	return r.take(ctx, t.Group, holder, title, m)
}

// take takes a place in a group. m is nil if the holder is not a known machine.
func (r *Registry) take(ctx context.Context, group, holder, title string, m *Machine) (granted bool, who []metal.Slot, err error) {
	want := metal.Want{Group: rebootPrefix + group, Holder: holder, Detail: title, Bound: r.o.Reboots, TTL: r.o.RebootTTL}
	if r.o.Clusters != nil {
		if want.Heeds, err = r.o.Clusters.ClusterID(ctx, group); err != nil {
			return false, nil, err
		}
	}
	if m != nil && m.Claim.Cluster == group {
		want.Cluster = want.Heeds
	}
	return r.store.Take(ctx, want)
}

// Unlock returns a machine's own place.
func (r *Registry) Unlock(ctx context.Context, group, uuid string) (held bool, err error) {
	m, err := r.member(ctx, group, uuid)
	if err != nil {
		return false, err
	}
	return r.store.Give(ctx, rebootPrefix+group, m.UUID)
}

// UnlockBy returns the place that LockBy gave to the same token and ID.
func (r *Registry) UnlockBy(ctx context.Context, t *metal.LockToken, id string) (held bool, err error) {
	holder, _, err := r.client(ctx, t, id)
	if err != nil {
		return false, err
	}
	return r.store.Give(ctx, rebootPrefix+t.Group, holder)
}

// Release takes a place from a holder that will never come back. group and holder are as Holders returns them.
func (r *Registry) Release(ctx context.Context, group, holder string) (held bool, err error) {
	return r.store.Give(ctx, group, holder)
}

// LockGroup is the label that names a machine's reboot group in addition to those of its cluster.
const LockGroup = "fleetlock-group"

// member returns the approved machine of a group.
func (r *Registry) member(ctx context.Context, group, uuid string) (*Machine, error) {
	if !groupForm.MatchString(group) {
		return nil, badGroup()
	}
	m, err := r.Machine(ctx, uuid)
	if fail.KindOf(err) == fail.NotFound || err == nil && Approval(m.Approval) != Approved {
		return nil, fail.New(fail.Unauthorized, "only approved machines reboot in turn").At(words.Clip(uuid, peer.Long))
	}
	if err != nil {
		return nil, err
	}
	if all := m.groups(); !slices.Contains(all, group) {
		return nil, fail.New(fail.Refused, "the machine is not of the group %s, but of %v", group, all).At(m.UUID).
			Do("a label says so: naupegos machine label %s %s=%s", m.UUID, LockGroup, group)
	}
	return m, nil
}

// groups returns a machine's reboot groups.
func (m *Machine) groups() (all []string) {
	if c := m.Claim.Cluster; c != "" {
		all = append(all, c, GroupOf(c))
	}
	if o := m.Record.Order; o != nil && o.Group != "" && !slices.Contains(all, o.Group) {
		all = append(all, o.Group)
	}
	if g := m.Labels[LockGroup]; g != "" && !slices.Contains(all, g) {
		all = append(all, g)
	}
	return all
}

// client returns the holder for a token and an ID, and the machine if the ID is one. A machine with a key must ask with its key, unless an
// operator has bound the ID to it.
func (r *Registry) client(ctx context.Context, t *metal.LockToken, id string) (holder string, m *Machine, err error) {
	if id == "" || len(id) > 256 {
		return "", nil, fail.New(fail.Invalid, "a holder needs an ID of at most 256 bytes")
	}
	found, byLabel, err := r.HolderOf(ctx, id)
	if err != nil {
		return "", nil, err
	}
	if found != nil {
		switch m, err := r.member(ctx, t.Group, found.UUID); {
		case err == nil && m.Record.Key != "" && !byLabel:
			return "", nil, fail.New(fail.Unauthorized, "the machine has a key, and asks with its certificate").At(m.UUID)
		case err == nil:
			return m.UUID, m, nil
		case fail.KindOf(err) != fail.Refused && fail.KindOf(err) != fail.Unauthorized:
			return "", nil, err
		}
	}
	return "token " + t.ID + ": " + words.Clip(id, 256), nil, nil
}

func badGroup() error {
	return fail.New(fail.Invalid, "a group's name has letters, digits, dots and hyphens, at most 64")
}

// LockLabel is the label with the ID of a client that asks to reboot the machine, if the ID is not the machine's UUID: Zincati derives its ID
// from the system's machine ID.
const LockLabel = "fleetlock-id"

// HolderOf returns the machine with a holder's ID, or nil. The ID is its UUID, with or without hyphens, or the value of its LockLabel. In the
// latter case a token replaces the machine's key, because Zincati can't show a certificate.
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
			Do("naupegos machine label removes it from machines that don't report this ID")
	}
	return &all[0], true, nil
}

// Holders returns all held places, for installations and for reboots.
func (r *Registry) Holders(ctx context.Context) ([]metal.Slot, error) { return r.store.Slots(ctx, "") }
