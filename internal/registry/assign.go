package registry

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
)

var roleForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func fixed(d facts.Disk) bool { return !d.Removable && d.SizeBytes > 0 }

// Fill decides which machines a cluster gets, and assigns all of them or none. With dry it only decides.
func (r *Registry) Fill(ctx context.Context, w Wanted, dry bool) (decision *Decision, err error) {
	err = r.assign(ctx, func(all []Machine) ([]metal.Assigned, error) {
		if err = locate(w.Cluster, all); err != nil {
			return nil, err
		}
		if decision, err = Schedule(w, all); err != nil || dry {
			return nil, err
		}
		var out []metal.Assigned
		for _, g := range decision.Given {
			claim := metal.Claim{Cluster: w.Cluster, Pool: g.Pool, Seat: g.Seat}
			out = append(out, metal.Assigned{UUID: g.UUID, Claim: claim, Roles: g.Roles(), Event: assignedTo(claim)})
		}
		return out, nil
	})
	if err != nil {
		return nil, err
	}
	return decision, nil
}

// Assign assigns one machine to a pool of a cluster, bypassing the scheduler.
func (r *Registry) Assign(ctx context.Context, uuid, cluster, pool string) error {
	if !nameForm.MatchString(cluster) || !nameForm.MatchString(pool) {
		return fail.New(fail.Invalid, "a machine is assigned to a cluster and a pool by their names, not to %q, %q", cluster, pool)
	}
	return r.assign(ctx, func(all []Machine) ([]metal.Assigned, error) {
		i := slices.IndexFunc(all, func(m Machine) bool { return m.UUID == uuid })
		if i < 0 {
			return nil, fail.New(fail.NotFound, "there is no such machine").At(uuid)
		}
		if why := Unusable(all[i]); why != "" {
			return nil, fail.New(fail.Refused, "the machine can't be assigned: %s", why).At(uuid).Do("free or mend it first: naupegos machine show %s", uuid)
		}
		var seats []int
		for _, m := range all {
			if m.Claim.Cluster == cluster && m.Claim.Pool == pool {
				seats = append(seats, m.Claim.Seat)
			}
		}
		claim := metal.Claim{Cluster: cluster, Pool: pool, Seat: lowest(seats)}
		return []metal.Assigned{{UUID: uuid, Claim: claim, Roles: RolesOf(pool), Event: assignedTo(claim)}}, nil
	})
}

func assignedTo(c metal.Claim) metal.Event {
	return metal.Event{What: "assigned", Detail: fmt.Sprintf("to %s, %s %d", c.Cluster, c.Pool, c.Seat)}
}

// Unassign removes a machine from its pool, and removes all its roles. A machine without either is not an error.
func (r *Registry) Unassign(ctx context.Context, uuid string) error {
	return r.SetRoles(ctx, uuid, nil)
}

// SetRoles gives a machine exactly these roles; an empty list also removes it from its pool.
func (r *Registry) SetRoles(ctx context.Context, uuid string, roles []string) error {
	for _, role := range roles {
		if !roleForm.MatchString(role) {
			return fail.New(fail.Invalid, "%q is not a role", role).Do("roles are %s, %s and %s", RoleEtcd, RoleControlPlane, RoleNode)
		}
	}
	return r.assign(ctx, func(all []Machine) ([]metal.Assigned, error) {
		i := slices.IndexFunc(all, func(m Machine) bool { return m.UUID == uuid })
		if i < 0 {
			return nil, fail.New(fail.NotFound, "there is no such machine").At(uuid)
		}
		if err := r.inUse(ctx, uuid, "take its role", all[i].Claim, &all[i].Record); err != nil {
			return nil, err
		}
		a := metal.Assigned{UUID: uuid, Claim: all[i].Claim, Roles: roles, Event: metal.Event{What: "has the roles", Detail: strings.Join(roles, ", ")}}
		if len(roles) == 0 {
			a.Claim, a.Event = metal.Claim{}, metal.Event{What: "unassigned"}
		}
		return []metal.Assigned{a}, nil
	})
}

// assign stores the assignments that decide returns for all machines. The machines come without facts; Machine.Said reads them.
func (r *Registry) assign(ctx context.Context, decide func(all []Machine) ([]metal.Assigned, error)) error {
	return r.store.Assign(ctx, func(stored []metal.Machine) ([]metal.Assigned, error) {
		all := make([]Machine, 0, len(stored))
		for i := range stored {
			m, err := open(&stored[i])
			if err != nil {
				return nil, err
			}
			all = append(all, *m)
		}
		return decide(all)
	})
}

// locate sets Record.Chassis of a cluster's machines and of usable ones from their facts, if an older version has not recorded it.
func locate(cluster string, all []Machine) error {
	for i := range all {
		m := &all[i]
		if m.Record.Chassis != nil || m.Claim.Cluster != cluster && !usable(*m) {
			continue
		}
		said, err := m.Said()
		if err != nil {
			return err
		}
		where := ""
		if said != nil {
			where = chassisOf(said)
		}
		m.Record.Chassis = &where
	}
	return nil
}
