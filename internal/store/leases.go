package store

import (
	"context"
	"slices"
	"strings"
)

// Leases implements Store.
func (s *database) Leases(ctx context.Context) ([]LeaseInfo, error) {
	found, err := list(ctx, s, s.log, scanLease, selectLease+" WHERE l.held = 1")
	if err != nil {
		return nil, s.wrap(err, "list the leases")
	}
	all := make([]LeaseInfo, 0, len(found))
	for _, l := range found {
		l.info.Alive = string(l.holder.lives(s.self))
		all = append(all, l.info)
	}
	slices.SortFunc(all, func(a, b LeaseInfo) int { return strings.Compare(a.Cluster, b.Cluster) })
	return all, nil
}

const selectLease = `SELECT l.cluster_id, c.name, l.generation, l.held, l.verb, l.holder, l.acquired, l.heartbeat, l.expires
	FROM leases l JOIN clusters c ON c.id = l.cluster_id`

// leaseRow is one row of leases.
type leaseRow struct {
	info   LeaseInfo
	held   bool
	holder holder
}

func scanLease(row scanner) (*leaseRow, error) {
	var l leaseRow
	var held int
	var who string
	var acquired, heartbeat, expires int64
	err := row.Scan(&l.info.ClusterID, &l.info.Cluster, &l.info.Generation, &held, &l.info.Verb, &who, &acquired, &heartbeat, &expires)
	if err != nil {
		return nil, err
	}
	if l.holder, err = decodeHolder(who); err != nil {
		return nil, err
	}
	l.held = held != 0
	l.info.Holder = l.holder.String()
	l.info.Acquired, l.info.Heartbeat, l.info.Expires = fromMicros(acquired), fromMicros(heartbeat), fromMicros(expires)
	return &l, nil
}
