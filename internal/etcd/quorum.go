package etcd

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/naupegos/naupegos/internal/fail"
)

// Action is a planned change of one member.
type Action int

// The actions that Project can foresee.
const (
	Stop    Action = iota // the member stops for a while (restart, reboot, upgrade) and keeps its vote
	Drop                  // the member is removed from the cluster
	Promote               // the learner gets a vote
)

var actions = map[Action]string{Stop: "stop", Drop: "remove", Promote: "promote"}

// Change is one action on one member.
type Change struct {
	Action Action
	ID     uint64
}

// Projection is the cluster after a change, in the worst case.
type Projection struct {
	Voters    int // members with a vote
	Healthy   int // of these, known to work; members in an unknown state count as broken
	Quorum    int // voters that must work for the cluster to accept writes
	Tolerates int // how many more may fail before the cluster stops
}

// MachineView is the state of a member's machine from a source other than etcd: the second of the two checks.
type MachineView int

// What the machine's owner reports. Remove refuses Unknown and InUse.
const (
	Unknown MachineView = iota // not checked
	InUse                      // the machine is there and meant to stay
	Drained                    // the machine exists, but its node is drained and it will be removed
	Gone                       // the machine does not exist or run
)

var views = map[MachineView]string{Unknown: "unknown", InUse: "in use", Drained: "drained", Gone: "gone"}

// String returns the view for messages.
func (v MachineView) String() string { return views[v] }

// Project computes the state after a change, assuming the worst: members that don't answer stay away, and members with alarms don't help. It
// refuses (fail.Refused, with the numbers) a change that leaves fewer healthy voters than the quorum, and any change of membership without a
// quorum. Stopping a broken member is always allowed.
func Project(members []Member, health []Health, ch Change) (Projection, error) {
	i := slices.IndexFunc(members, func(m Member) bool { return m.ID == ch.ID })
	if i < 0 {
		return Projection{}, fail.New(fail.NotFound, "%s etcd member %x: it is not in the member list", actions[ch.Action], ch.ID)
	}
	m := members[i]
	now := count(members, health)
	what := fmt.Sprintf("%s etcd member %s", actions[ch.Action], label(m))
	if ch.Action != Stop && now.Healthy < now.Quorum {
		return now, fail.New(fail.Refused, "%s: etcd has no quorum now: %s", what, now).
			Do("bring a stopped control-plane machine back, or restore from a snapshot")
	}
	ok := healthy(health, m.ID)
	after := apply(now, m, ok, ch.Action)
	if ch.Action == Stop && !ok {
		return after, nil // it contributes nothing now; a restart can only improve that
	}
	if after.Voters == 0 {
		return after, fail.New(fail.Refused, "%s: it is the last voting member", what).Do("destroy the cluster instead if that is what you want")
	}
	if after.Healthy < after.Quorum {
		return after, fail.New(fail.Refused, "%s: etcd would lose its quorum: now %s; afterwards %s", what, now, after).
			Do("repair the members that don't answer first")
	}
	return after, nil
}

// apply returns p after an action on one member.
func apply(p Projection, m Member, ok bool, a Action) Projection {
	switch {
	case a == Promote && m.Learner:
		p.Voters++
		if ok {
			p.Healthy++
		}
	case m.Learner || a == Promote:
		// A learner has no vote to lose; a voter can't be promoted again.
	default:
		if ok {
			p.Healthy--
		}
		if a == Drop {
			p.Voters--
		}
	}
	return finish(p)
}

// Now returns the current state of the cluster.
func Now(members []Member, health []Health) Projection { return count(members, health) }

func count(members []Member, health []Health) Projection {
	var p Projection
	for _, m := range members {
		if m.Learner {
			continue
		}
		p.Voters++
		if healthy(health, m.ID) {
			p.Healthy++
		}
	}
	return finish(p)
}

func finish(p Projection) Projection {
	p.Quorum = p.Voters/2 + 1
	p.Tolerates = max(0, p.Healthy-p.Quorum)
	return p
}

// healthy reports whether a member is known to be healthy.
func healthy(health []Health, id uint64) bool {
	i := slices.IndexFunc(health, func(h Health) bool { return h.ID == id })
	return i >= 0 && health[i].OK()
}

// String returns the numbers for messages.
func (p Projection) String() string {
	return fmt.Sprintf("%d of %d voters healthy, %d needed", p.Healthy, p.Voters, p.Quorum)
}

// CheckRemove reports whether a member may be removed: the projection allows it, the machine's owner reports that the machine is gone or drained,
// and the two views don't contradict each other (the machine is gone, but its etcd answers).
func CheckRemove(members []Member, health []Health, id uint64, seen MachineView) (Projection, error) {
	p, err := Project(members, health, Change{Action: Drop, ID: id})
	if err != nil {
		return p, err
	}
	m := members[slices.IndexFunc(members, func(m Member) bool { return m.ID == id })]
	what := "remove etcd member " + label(m)
	switch seen {
	case Drained:
		return p, nil
	case Gone:
		i := slices.IndexFunc(health, func(h Health) bool { return h.ID == id })
		if i >= 0 && health[i].Reachable {
			return p, fail.New(fail.Refused, "%s: its machine is reported gone, but its etcd answers at %s", what, health[i].URL).
				Do("find out which machine answers there; drain and stop it first")
		}
		return p, nil
	default:
		return p, fail.New(fail.Refused, "%s: only etcd's own view allows it, the machine is %s", what, seen).
			Do("drain the node, or make sure that its machine is gone")
	}
}

// CheckReplace reports whether a voter may be replaced by a new member, stage by stage. With removeFirst (the new machine has
// the old one's address) the old member goes, then the new learner is promoted; otherwise the other way round, and the new
// one is assumed to work because etcd promotes only a learner that has caught up.
func CheckReplace(members []Member, health []Health, old uint64, seen MachineView, removeFirst bool) ([]Projection, error) {
	const fresh = ^uint64(0) // stands for the member that does not exist yet
	stages := []Projection{}
	add := func() error {
		members = append(slices.Clone(members), Member{ID: fresh, Name: "the new member", Learner: true, Started: true})
		health = append(slices.Clone(health), Health{ID: fresh, Reachable: true})
		p, err := Project(members, health, Change{Action: Promote, ID: fresh})
		stages = append(stages, p)
		members[len(members)-1].Learner = false
		return err
	}
	remove := func() error {
		p, err := CheckRemove(members, health, old, seen)
		stages = append(stages, p)
		members = slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.ID == old })
		return err
	}
	order := []func() error{add, remove}
	if removeFirst {
		order = []func() error{remove, add}
	}
	for _, stage := range order {
		if err := stage(); err != nil {
			return stages, err
		}
	}
	return stages, nil
}

func label(m Member) string {
	if m.Name == "" {
		return hex(m.ID)
	}
	return m.Name + " (" + hex(m.ID) + ")"
}

func hex(id uint64) string { return strconv.FormatUint(id, 16) }
