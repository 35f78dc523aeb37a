package metal

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Wait is a machine's approval state. Claims of a pending machine, such as MAC addresses, do not block other machines.
type Wait int

// The approval states.
const (
	Counts Wait = iota // approved: its claims count
	Once               // pending, reported once
	Again              // pending, reported again
	Kept               // pending, configured by an operator: never removed to make room
)

// Room limits the number of pending machines; 0 is no limit.
type Room struct {
	Total     int // of all
	PerOrigin int // per Machine.Origin
}

// Limits of a pending machine's data.
const (
	waitingBoots  = 2
	waitingEvents = 20
	waitingMACs   = 64
)

// removable is the SQL condition for machines that may be removed to make room, or for their age.
const removable = "waits IN (1, 2)"

// makeRoom removes pending machines over the limits, per origin and in total, but not d itself. It removes machines that reported only once first, and
// among them the one with the oldest report.
func (s machines) makeRoom(ctx context.Context, tx Querier, d *Draft, room Room) error {
	if room.Total <= 0 && (room.PerOrigin <= 0 || d.Origin == "") {
		return nil
	}
	if err := s.lock(ctx, tx, "waiting"); err != nil {
		return err
	}
	remove := func(bound int, where string, args ...any) error {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM machines WHERE "+removable+where, args...).Scan(&n); err != nil || n <= bound {
			return err
		}
		args = append(args, d.UUID, n-bound)
		_, err := run(ctx, tx, fmt.Sprintf("DELETE FROM machines WHERE uuid IN (SELECT uuid FROM machines WHERE "+removable+where+
			" AND uuid <> $%d ORDER BY waits, seen_at, uuid LIMIT $%d)", len(args)-1, len(args)), args...)
		return err
	}
	if room.PerOrigin > 0 && d.Origin != "" {
		if err := remove(room.PerOrigin, " AND origin = $1", d.Origin); err != nil {
			return err
		}
	}
	if room.Total > 0 {
		return remove(room.Total, "")
	}
	return nil
}

// Expire implements Store.
func (s machines) Expire(ctx context.Context, unseen time.Time) (n int64, err error) {
	err = s.db.Write(ctx, true, func(tx Querier) (err error) {
		n, err = run(ctx, tx, "DELETE FROM machines WHERE "+removable+" AND seen_at < $1", micros(unseen))
		return err
	})
	return n, s.db.Wrap(err, "remove old pending machines")
}

// Claimants implements Store.
func (s machines) Claimants(ctx context.Context, uuid string) (all []string, err error) {
	err = s.db.Read(ctx, func(q Querier) (err error) {
		all, err = rows(ctx, q, func(r *sql.Rows) (other string, err error) { return other, r.Scan(&other) },
			`SELECT DISTINCT b.uuid FROM machine_claims a JOIN machine_claims b ON b.mac = a.mac AND b.uuid <> a.uuid WHERE a.uuid = $1 ORDER BY b.uuid LIMIT 10`, uuid)
		return err
	})
	return all, s.db.Wrap(err, "read other claims to the MAC addresses of machine %s", uuid)
}

// ambiguous returns an error with the claimants of a MAC address if there are several.
func (s machines) ambiguous(ctx context.Context, q Querier, mac string) error {
	all, err := rows(ctx, q, func(r *sql.Rows) (uuid string, err error) { return uuid, r.Scan(&uuid) },
		"SELECT uuid FROM machine_claims WHERE mac = $1 ORDER BY uuid LIMIT 10", mac)
	if err != nil || len(all) < 2 {
		return err
	}
	return fail.New(fail.Conflict, "several pending machines claim the MAC address %s: %s", mac, strings.Join(all, ", ")).
		Do("use the UUID of one: naupegos machine show UUID shows the machine")
}

// claim writes the MAC addresses that a machine claims, and the addresses that other keys claim for its UUID. It refuses addresses of approved machines.
func claim(ctx context.Context, tx Querier, uuid string, macs []string, place func(i int) int) error {
	for i, mac := range macs[:min(len(macs), waitingMACs)] {
		var other string
		err := tx.QueryRowContext(ctx, "SELECT uuid FROM machine_macs WHERE mac = $1 AND uuid <> $2", mac, uuid).Scan(&other)
		if err == nil {
			return taken(mac, uuid, other)
		}
		if !isNoRows(err) {
			return err
		}
		if _, err := run(ctx, tx, "INSERT INTO machine_claims (mac, uuid, place) VALUES ($1, $2, $3) ON CONFLICT (mac, uuid) DO NOTHING", mac, uuid, place(i)); err != nil {
			return err
		}
	}
	return nil
}

func taken(mac, uuid, other string) error {
	return fail.New(fail.Conflict, "the MAC address %s belongs to machine %s", mac, other).At(uuid).
		Do("if its network card was moved, remove the other machine first: naupegos machine forget %s", other)
}
