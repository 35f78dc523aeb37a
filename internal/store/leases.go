package store

import (
	"context"
	"time"
)

// LeaseInfo is a lease that is held, as others see it.
type LeaseInfo struct {
	ClusterID  string    `json:"clusterID"`
	Cluster    string    `json:"cluster"` // the cluster's name
	Verb       string    `json:"verb"`
	Holder     string    `json:"holder"` // "user@host, pid 42"
	Alive      string    `json:"alive"`  // "yes", "no" or "unknown": a process on another host
	Generation int64     `json:"generation"`
	Acquired   time.Time `json:"acquired"`
	Heartbeat  time.Time `json:"heartbeat"`
	Expires    time.Time `json:"expires"`
}

// Leases returns the leases that are held, or were when their holder died, by cluster.
func (s *Store) Leases(ctx context.Context) ([]LeaseInfo, error) {
	rows, err := s.log.QueryContext(ctx, selectLease+" WHERE l.held = 1 ORDER BY c.name")
	if err != nil {
		return nil, s.wrap(err, "list the leases")
	}
	found, err := collect(rows, scanLease)
	if err != nil {
		return nil, s.wrap(err, "list the leases")
	}
	list := make([]LeaseInfo, 0, len(found))
	for _, l := range found {
		l.info.Alive = string(l.holder.lives(s.self))
		list = append(list, l.info)
	}
	return list, nil
}

const selectLease = `SELECT l.cluster_id, c.name, l.generation, l.held, l.verb, l.holder, l.acquired, l.heartbeat, l.expires
	FROM leases l JOIN clusters c ON c.id = l.cluster_id`

// leaseRow is one row of leases.
type leaseRow struct {
	info   LeaseInfo
	held   bool
	holder holder
}

func scanLease(row interface{ Scan(...any) error }) (*leaseRow, error) {
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
