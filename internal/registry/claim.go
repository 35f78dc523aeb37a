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

// GatewayPool is the pool of a cluster's gateways, and RoleGateway the role of its machines.
const (
	GatewayPool = "gateway"
	RoleGateway = "gateway"
)

// Seat is a place in a pool for a machine.
type Seat struct {
	Pool   string
	Number int
	// Labelled says why a machine can't have the seat, regardless of its facts, and Fits why its facts don't fit; empty if it can. nil accepts
	// any machine. Fits is called only after Labelled accepts, because it needs the machine's facts, which are read for it.
	Labelled, Fits func(m *Machine) string
}

// Had is the seat that a machine was returned to the stock from.
type Had struct {
	metal.Claim
	At    time.Time `json:"at"`
	Again bool      `json:"again,omitempty"` // the machine is only to be reinstalled and is preferred for this seat; otherwise it is the last choice
}

// Claim assigns a cluster a machine for each vacant seat, or none at all: then fail.Refused lists machines and why each can't be used. With dry
// it only decides. spread is as in Wanted.
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

// Seated lists the machines in a cluster's seats, sorted by pool and seat. spread is as in Wanted.
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

// RolesOf returns the roles of a pool's machines.
func RolesOf(pool string) []string {
	if pool == GatewayPool {
		return []string{RoleGateway}
	}
	return rolesOf(pool == ControlPlanePool)
}

// choose assigns machines to seats without changing anything. It first fills seats whose former machine shall return, then the seats with the
// fewest fitting machines, so that these machines are not taken for other seats.
func choose(cluster, spread string, seats []Seat, all []Machine) ([]Given, error) {
	s := &scheduler{w: Wanted{Cluster: cluster, Spread: spread}, all: slices.SortedFunc(slices.Values(all), func(a, b Machine) int { return cmp.Compare(a.UUID, b.UUID) })}
	type open struct {
		Seat
		free  []Machine
		again string // UUID of the machine that had the seat last, if it shall have it again
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
	// A seat's best machine may have been the only one that fits another seat: look for any complete assignment.
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

// fitting returns, for each usable machine and each seat, why the machine does not fit; empty if it does. It reads the facts of one machine at
// a time, and only of machines that some seat's Labelled accepts.
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

// left returns when a machine was returned to the stock from this seat; zero if it was not.
func left(m Machine, seat Seat, cluster string) time.Time {
	if h := m.Record.Had; h != nil && h.Claim == (metal.Claim{Cluster: cluster, Pool: seat.Pool, Seat: seat.Number}) {
		return h.At
	}
	return time.Time{}
}

// first compares booleans for sorting: true comes before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// match assigns each seat one of its free machines, by augmenting paths; nil if no complete assignment exists.
func match(free [][]Machine) []Machine {
	holder := map[string]int{} // seat of each machine, by UUID
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

// GroupOf returns the reboot group of machines that a cluster has installed. It differs from the cluster's name, because a group of that name
// heeds the cluster's lease, and the command that waits for the machines holds that lease.
func GroupOf(cluster string) string { return cluster + ".machines" }

// inUse refuses the action what if it would take a machine from the cluster that installed it, unless that cluster no longer exists.
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
		Do("release it from the cluster: naupegos node replace %s %s replaces it by another one; fewer replicas in the document remove it", claim.Cluster, rec.Order.Hostname)
}

// most bounds the machines that a refusal lists.
const most = 20

// lacks returns the error for missing machines. It counts machines by the reason why they can't be used; only its confidential part names them. fits
// and seat index why one does not fit.
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
	var why, kinds []string
	counts := map[string]int{}
	for i, m := range all {
		reason, kind := Unusable(m), kindOf(m)
		switch {
		case reason != "":
		case taken[m.UUID]:
			reason, kind = "it is taken for another place of this cluster", "taken for other places of this cluster"
		default:
			reason, kind = fits[i][seat], "free but not suitable" // a fitting machine would have been taken
		}
		why = append(why, m.Title()+": "+reason)
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	if len(all) == 0 {
		return fail.New(fail.Refused, "there are not enough machines: %s. None is known", strings.Join(words, ", ")).Do("%s", freeSome)
	}
	slices.Sort(kinds)
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[k], k)
	}
	if n := len(why) - most; n > 0 {
		why = append(why[:most], fmt.Sprintf("and %d more", n))
	}
	return fail.New(fail.Refused, "there are not enough machines: %s. Of %d that are known: %s", strings.Join(words, ", "), len(all), strings.Join(kinds, ", ")).
		Do("%s", freeSome).Confide("  %s", strings.Join(why, "\n  "))
}

// freeSome is the advice when machines are missing.
const freeSome = "free, approve or repair machines (naupegos machine list), or use fewer"

// GiveBack returns a machine in a cluster's seat to the stock, and records the seat. The machine must be reinstalled before it is used again: its
// disk's content is obsolete. A machine without a seat in this cluster stays as it is. again prefers it when the seat is filled again; this
// is stored in the same write as the end of its use, so that a crash can't bring another machine into the seat.
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
