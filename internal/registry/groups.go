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

// Groups are the registry's reboot groups, whose members reboot in turn: places, holders and the tokens of clients without a machine's key.
// Registry.Groups returns them. The protocol is FleetLock: https://coreos.github.io/zincati/development/fleetlock/protocol/
type Groups struct{ r *Registry }

// Groups returns the reboot groups.
func (r *Registry) Groups() Groups { return Groups{r} }

// rebootPrefix begins the names of reboot groups in the store.
const rebootPrefix = "reboot/"

var groupForm = regexp.MustCompile(`^[A-Za-z0-9.-]{1,64}$`)

// Lock lets a machine reboot if its group has a free place; the place lasts for Options.RebootTTL. who lists the holders of places. The caller
// must have verified the machine's key. The machine must be approved (fail.Unauthorized) and in the group (fail.Refused).
//
// A group with a cluster's name heeds the cluster's lease: no machine reboots while a command changes the cluster, and no command starts while a
// machine of the cluster may reboot.
func (g Groups) Lock(ctx context.Context, group, uuid string) (granted bool, who []metal.Slot, err error) {
	m, err := g.member(ctx, group, uuid)
	if err != nil {
		return false, nil, err
	}
	return g.take(ctx, group, m.UUID, m.Title(), m)
}

// LockBy is Lock for a client that has shown a group's token and identifies itself by an ID. If the ID is an approved machine of the group, the
// client asks for the machine's place; any other ID gets its own place, which no command waits for.
func (g Groups) LockBy(ctx context.Context, t *metal.LockToken, id string) (granted bool, who []metal.Slot, err error) {
	holder, m, err := g.client(ctx, t, id)
	if err != nil {
		return false, nil, err
	}
	title := id
	if m != nil {
		title = m.Title()
	}
	return g.take(ctx, t.Group, holder, title, m)
}

// take takes a place in a group. m is nil if the holder is not a known machine.
func (g Groups) take(ctx context.Context, group, holder, title string, m *Machine) (granted bool, who []metal.Slot, err error) {
	want := metal.Want{Group: rebootPrefix + group, Holder: holder, Detail: title, Bound: g.r.o.Reboots, TTL: g.r.o.RebootTTL}
	if g.r.o.Clusters != nil {
		if want.Heeds, err = g.r.o.Clusters.ClusterID(ctx, group); err != nil {
			return false, nil, err
		}
	}
	if m != nil && m.Claim.Cluster == group {
		want.Cluster = want.Heeds
	}
	return g.r.store.Take(ctx, want)
}

// Unlock returns a machine's own place.
func (g Groups) Unlock(ctx context.Context, group, uuid string) (held bool, err error) {
	m, err := g.member(ctx, group, uuid)
	if err != nil {
		return false, err
	}
	return g.r.store.Give(ctx, rebootPrefix+group, m.UUID)
}

// UnlockBy returns the place that LockBy gave to the same token and ID.
func (g Groups) UnlockBy(ctx context.Context, t *metal.LockToken, id string) (held bool, err error) {
	holder, _, err := g.client(ctx, t, id)
	if err != nil {
		return false, err
	}
	return g.r.store.Give(ctx, rebootPrefix+t.Group, holder)
}

// LockGroup is the label that names a machine's reboot group in addition to those of its cluster.
const LockGroup = "fleetlock-group"

// member returns the approved machine of a group.
func (g Groups) member(ctx context.Context, group, uuid string) (*Machine, error) {
	if !groupForm.MatchString(group) {
		return nil, badGroup()
	}
	m, err := g.r.Machine(ctx, uuid)
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
func (g Groups) client(ctx context.Context, t *metal.LockToken, id string) (holder string, m *Machine, err error) {
	if id == "" || len(id) > 256 {
		return "", nil, fail.New(fail.Invalid, "a holder needs an ID of at most 256 bytes")
	}
	found, byLabel, err := g.HolderOf(ctx, id)
	if err != nil {
		return "", nil, err
	}
	if found != nil {
		switch m, err := g.member(ctx, t.Group, found.UUID); {
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
func (g Groups) HolderOf(ctx context.Context, id string) (m *Machine, byLabel bool, err error) {
	text := id
	if len(id) == 32 { // as Zincati writes its identity.node_uuid
		text = strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	}
	if uuid, err := facts.ParseUUID(text); err == nil {
		m, err := g.r.Selected(ctx, facts.Selector{UUID: uuid})
		if fail.KindOf(err) != fail.NotFound {
			return m, false, err
		}
	}
	if !valueForm.MatchString(id) {
		return nil, false, nil
	}
	all, _, err := g.r.Find(ctx, metal.Query{Labels: map[string]string{LockLabel: id}})
	switch {
	case err != nil || len(all) == 0:
		return nil, false, err
	case len(all) > 1:
		return nil, false, fail.New(fail.Conflict, "the machines %s and %s have the same label %s", all[0].Title(), all[1].Title(), LockLabel).
			Do("naupegos machine label removes it from machines that don't report this ID")
	}
	return &all[0], true, nil
}
