package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// GatewayPool is the pool of a cluster's gateways, and RoleGateway what its machines get.
const (
	GatewayPool = "gateway"
	RoleGateway = "gateway"
)

// Seat is a place in a pool that a cluster wants a machine for.
type Seat struct {
	Pool   string
	Number int
	// Labelled says why a machine can't have it, by all but its facts, and Fits by its facts; empty if it can. nil: any can. Fits is asked only of
	// machines that Labelled lets pass: their facts are read for it.
	Labelled, Fits func(m *Machine) string
}

// Had is a seat that a machine was given back from.
type Had struct {
	metal.Claim
	At    time.Time `json:"at"`
	Again bool      `json:"again,omitempty"` // it is only to be installed anew, and comes first where the seat is filled; else it comes last
}

// Claim gives a cluster a machine for each of the seats that nobody has, all of them or none: fail.Refused, which says which machines there
// are and why each can't be used. dry only decides. spread is as in Wanted.
func (r *Registry) Claim(ctx context.Context, cluster, spread string, seats []Seat, dry bool) (given []Given, err error) {
	if !nameForm.MatchString(cluster) {
		return nil, fail.New(fail.Invalid, "%q is not a name of a cluster", cluster)
	}
	err = r.assign(ctx, func(all []Machine) ([]metal.Assigned, error) {
		if err = locate(cluster, all); err != nil {
			return nil, err
		}
		if given, err = choose(cluster, spread, seats, all); err != nil || dry {
			return nil, err
		}
		var out []metal.Assigned
		for _, g := range given {
			claim := metal.Claim{Cluster: cluster, Pool: g.Pool, Seat: g.Seat}
			out = append(out, metal.Assigned{UUID: g.UUID, Claim: claim, Roles: RolesOf(g.Pool), Event: assignedTo(claim)})
		}
		return out, nil
	})
	if err != nil {
		return nil, err
	}
	return given, nil
}

// Seated lists the machines that have seats of a cluster, by pool and seat. spread is as in Wanted.
func (r *Registry) Seated(ctx context.Context, cluster, spread string) (seated []Given, err error) {
	err = r.assign(ctx, func(all []Machine) ([]metal.Assigned, error) {
		if err := locate(cluster, slices.DeleteFunc(slices.Clone(all), func(m Machine) bool { return m.Claim.Cluster != cluster })); err != nil {
			return nil, err
		}
		s := &scheduler{w: Wanted{Cluster: cluster, Spread: spread}}
		seated = nil
		for _, m := range all {
			if c := m.Claim; c.Cluster == cluster {
				seated = append(seated, Given{UUID: m.UUID, Machine: m.Title(), Pool: c.Pool, Seat: c.Seat, Domain: s.domain(m), control: c.Pool == ControlPlanePool})
			}
		}
		return nil, nil
	})
	slices.SortFunc(seated, func(a, b Given) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Seat, b.Seat)) })
	return seated, err
}

// RolesOf are the roles that machines of a pool get.
func RolesOf(pool string) []string {
	if pool == GatewayPool {
		return []string{RoleGateway}
	}
	return rolesOf(pool == ControlPlanePool)
}

// choose decides who gets which seat, and asks nobody. Seats that few machines fit come first, so that nobody takes these from them.
func choose(cluster, spread string, seats []Seat, all []Machine) ([]Given, error) {
	s := &scheduler{w: Wanted{Cluster: cluster, Spread: spread}, all: slices.SortedFunc(slices.Values(all), func(a, b Machine) int { return cmp.Compare(a.UUID, b.UUID) })}
	type open struct {
		Seat
		free  []Machine
		again string // UUID of the machine that had the seat last, where it is to have it again
	}
	var wanted []open
	domains := map[string]map[string]int{}
	for _, m := range s.all {
		if m.Claim.Cluster == cluster {
			count(domains, m.Claim.Pool, s.domain(m))
		}
	}
	fits, err := fitting(seats, s.all)
	if err != nil {
		return nil, err
	}
	for n, seat := range seats {
		if slices.ContainsFunc(s.all, func(m Machine) bool {
			return m.Claim == metal.Claim{Cluster: cluster, Pool: seat.Pool, Seat: seat.Number}
		}) {
			continue
		}
		o := open{Seat: seat}
		var last time.Time
		for i, m := range s.all {
			if at := left(m, seat, cluster); at.After(last) {
				if last, o.again = at, ""; m.Record.Had.Again {
					o.again = m.UUID
				}
			}
			if fits[i] != nil && fits[i][n] == "" {
				o.free = append(o.free, m)
			}
		}
		wanted = append(wanted, o)
	}
	slices.SortStableFunc(wanted, func(a, b open) int {
		return cmp.Or(first(a.again != "", b.again != ""), cmp.Compare(len(a.free), len(b.free)))
	})
	taken := map[string]bool{}
	var given []Given
	var lacking []Seat
	give := func(o open, m Machine) {
		taken[m.UUID] = true
		count(domains, o.Pool, s.domain(m))
		given = append(given, Given{UUID: m.UUID, Machine: m.Title(), Pool: o.Pool, Seat: o.Number, Domain: s.domain(m), control: o.Pool == ControlPlanePool})
	}
	for _, o := range wanted {
		o.free = slices.DeleteFunc(slices.Clone(o.free), func(m Machine) bool { return taken[m.UUID] })
		if len(o.free) == 0 {
			lacking = append(lacking, o.Seat)
			continue
		}
		best := slices.MinFunc(o.free, func(a, b Machine) int {
			return cmp.Or(first(a.UUID == o.again, b.UUID == o.again), left(a, o.Seat, cluster).Compare(left(b, o.Seat, cluster)),
				cmp.Compare(domains[o.Pool][s.domain(a)], domains[o.Pool][s.domain(b)]))
		})
		give(o, best)
	}
	if len(lacking) == 0 {
		return given, nil
	}
	// Who took the best has perhaps taken the only one that another seat could have.
	free := make([][]Machine, len(wanted))
	for i, o := range wanted {
		free[i] = o.free
	}
	who := match(free)
	if who == nil {
		return nil, lacks(lacking, s.all, taken, fits, slices.IndexFunc(seats, func(x Seat) bool { return x.Pool == lacking[0].Pool && x.Number == lacking[0].Number }))
	}
	given = nil
	for i, o := range wanted {
		give(o, who[i])
	}
	return given, nil
}

// fitting says of each machine that could be used why it does not fit each seat; empty: it does. It reads the facts of one machine at a time, and
// only of those that the labels of a seat let pass.
func fitting(seats []Seat, all []Machine) ([][]string, error) {
	out := make([][]string, len(all))
	for i := range all {
		m := all[i]
		if !usable(m) {
			continue
		}
		out[i] = make([]string, len(seats))
		for n, seat := range seats {
			if seat.Labelled != nil {
				out[i][n] = seat.Labelled(&m)
			}
			if out[i][n] != "" || seat.Fits == nil {
				continue
			}
			said, err := m.Said()
			if err != nil {
				return nil, err
			}
			if m.Facts = said; said == nil {
				m.Facts = &facts.Discovery{}
			}
			out[i][n] = seat.Fits(&m)
		}
	}
	return out, nil
}

// left says when a machine was given back from a seat last; zero: it never had it.
func left(m Machine, seat Seat, cluster string) time.Time {
	if h := m.Record.Had; h != nil && h.Claim == (metal.Claim{Cluster: cluster, Pool: seat.Pool, Seat: seat.Number}) {
		return h.At
	}
	return time.Time{}
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// match gives each seat one of the machines that are free for it, however that can be done; nil where it can't.
func match(free [][]Machine) []Machine {
	holder := map[string]int{} // by machine: who has it
	who := make([]Machine, len(free))
	var seat func(i int, asked map[string]bool) bool
	seat = func(i int, asked map[string]bool) bool {
		for _, m := range free[i] {
			if asked[m.UUID] {
				continue
			}
			asked[m.UUID] = true
			if other, held := holder[m.UUID]; !held || seat(other, asked) {
				holder[m.UUID], who[i] = i, m
				return true
			}
		}
		return false
	}
	for i := range free {
		if !seat(i, map[string]bool{}) {
			return nil
		}
	}
	return who
}

func count(domains map[string]map[string]int, pool, domain string) {
	if domains[pool] == nil {
		domains[pool] = map[string]int{}
	}
	domains[pool][domain]++
}

// GroupOf is the group of reboots of machines that a cluster has had installed. It is none that has a cluster's name: the lease of that one is
// held by whoever waits for the machines.
func GroupOf(cluster string) string { return cluster + ".machines" }

// inUse refuses, with its name, what would take a machine away from the cluster that has had it installed, unless nobody knows that cluster any more.
func (r *Registry) inUse(ctx context.Context, uuid, what string, claim metal.Claim, rec *Record) error {
	if claim.Cluster == "" || rec.Order == nil || rec.Order.Group != GroupOf(claim.Cluster) {
		return nil
	}
	if r.o.Clusters != nil {
		if id, err := r.o.Clusters.ClusterID(ctx, claim.Cluster); err != nil || id == "" {
			return err
		}
	}
	return fail.New(fail.Refused, "%s: cluster %s uses the machine as %s", what, claim.Cluster, rec.Order.Hostname).At(uuid).
		Do("have the cluster give it up: naupegos node replace %s %s puts another one in its place; fewer replicas in the document take it away", claim.Cluster, rec.Order.Hostname)
}

// most is of how many machines a refusal says why they can't be used.
const most = 20

// lacks says which machines there are, and why each can't be used. fits says why each does not fit the seat of a number.
func lacks(seats []Seat, all []Machine, taken map[string]bool, fits [][]string, seat int) error {
	pools := map[string]int{}
	var order []string
	for _, s := range seats {
		if pools[s.Pool]++; pools[s.Pool] == 1 {
			order = append(order, s.Pool)
		}
	}
	var words []string
	for _, p := range order {
		words = append(words, fmt.Sprintf("%s lacks %d", p, pools[p]))
	}
	var why []string
	for i, m := range all {
		reason := Unusable(m)
		switch {
		case reason != "":
		case taken[m.UUID]:
			reason = "it is taken for another place of this cluster"
		default:
			reason = fits[i][seat] // one that fits would have been taken
		}
		why = append(why, m.Title()+": "+reason)
	}
	if n := len(why) - most; n > 0 {
		why = append(why[:most], fmt.Sprintf("and %d more", n))
	}
	if len(why) == 0 {
		why = []string{"none is known"}
	}
	return fail.New(fail.Refused, "there are not enough machines: %s. Of %d that are known:\n  %s", strings.Join(words, ", "), len(all), strings.Join(why, "\n  ")).
		Do("free, approve or repair machines (naupegos machine list), or use fewer")
}

// GiveBack takes a machine that has a seat of a cluster back to the stock, and remembers what it had. It is to be installed anew before it is
// used again: what is on its disk is nobody's any more. One that has no seat of this cluster stays as it is. again has it come first where the
// seat is filled; that is written together with its end, so that no crash has another machine come.
func (r *Registry) GiveBack(ctx context.Context, uuid, cluster, by string, again bool) error {
	var had *metal.Claim
	_, err := r.change(ctx, uuid, metal.How{}, func(d *metal.Draft, rec *Record) error {
		had = nil
		if d.Claim.Cluster != cluster {
			return nil
		}
		claim := d.Claim
		had, rec.Had = &claim, &Had{claim, time.Now().UTC().Truncate(time.Microsecond), again}
		rec.Order, rec.Wanted, rec.Installed, rec.HostKeys, rec.Failures, rec.Reinstall = nil, "", time.Time{}, nil, 0, false
		d.Note("returned to the stock", fmt.Sprintf("by %s: it was %s %d of %s", by, claim.Pool, claim.Seat, claim.Cluster))
		return nil
	})
	if err != nil || had == nil {
		return err
	}
	return r.Unassign(ctx, uuid)
}
