package metal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// What is kept of one machine at most.
const (
	keptBoots  = 20
	keptEvents = 200
)

// Change implements Store.
func (s machines) Change(ctx context.Context, uuid string, h How, f func(d *Draft) error) (*Machine, error) {
	var after Machine
	err := s.db.Write(ctx, h.Quick, func(tx Querier) error {
		if err := s.db.Current(ctx, tx); err != nil {
			return err
		}
		d, err := s.draft(ctx, tx, uuid, h.Make)
		if err != nil {
			return err
		}
		before := d.Machine
		before.MACs, before.Labels = slices.Clone(d.MACs), maps.Clone(d.Labels)
		if err := f(d); err != nil {
			return err
		}
		d.UUID, d.Claim, d.Roles = before.UUID, before.Claim, before.Roles
		if err := s.save(ctx, tx, d, before); err != nil {
			return err
		}
		if d.New && d.Waits != Counts {
			if err := s.makeRoom(ctx, tx, d, h.Room); err != nil {
				return err
			}
		}
		after = d.Machine
		return nil
	})
	if s.db.IsUnique(err) {
		return nil, fail.New(fail.Conflict, "another machine has the name").At(uuid).Do("choose another name: naupegos machine list shows which machine has it")
	}
	if err != nil {
		return nil, s.db.Wrap(err, "remember the machine %s", uuid)
	}
	return &after, nil
}

// draft reads the machine that is to be changed, and keeps others from changing it.
func (s machines) draft(ctx context.Context, tx Querier, uuid string, create bool) (*Draft, error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	made := int64(0)
	if create {
		var err error
		empty := Machine{UUID: uuid, Record: []byte("{}")}
		facts, parts := FactsSum([]byte("{}")), PartsSum(&empty)
		made, err = run(ctx, tx, `INSERT INTO machines (uuid, name, state, approval, cluster, pool, seat, record, facts, created_at, changed_at, seen_at, facts_sum, parts_sum, mac)
			VALUES ($1, '', '', '', '', '', 0, '{}', '{}', $2, $2, $2, $3, $4, $5) ON CONFLICT (uuid) DO NOTHING`, uuid, micros(now), facts, parts, s.sign(&empty, facts, parts))
		if err != nil {
			return nil, err
		}
	}
	m, _, err := s.locked(ctx, tx, uuid, true)
	if err != nil {
		return nil, err
	}
	return &Draft{Machine: *m, New: made > 0}, nil
}

// save writes what differs.
func (s machines) save(ctx context.Context, tx Querier, d *Draft, before Machine) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	d.Changed = now
	if !bytes.Equal(d.Facts, before.Facts) {
		if _, err := run(ctx, tx, "UPDATE machines SET facts = $1 WHERE uuid = $2", string(d.Facts), d.UUID); err != nil {
			return err
		}
	}
	if !slices.Equal(d.MACs, before.MACs) || (d.Waits == Counts) != (before.Waits == Counts) || d.Rivals != nil {
		if err := s.putMACs(ctx, tx, d); err != nil {
			return err
		}
	}
	if !maps.Equal(d.Labels, before.Labels) {
		if err := putLabels(ctx, tx, d); err != nil {
			return err
		}
	}
	facts, parts := FactsSum(d.Facts), PartsSum(&d.Machine)
	if _, err := run(ctx, tx, `UPDATE machines SET name = $1, state = $2, approval = $3, unusable = $4, record = $5, changed_at = $6, seen_at = $7, waits = $8, origin = $9,
		facts_sum = $10, parts_sum = $11, mac = $12 WHERE uuid = $13`,
		d.Name, d.State, d.Approval, d.Unusable, string(d.Record), micros(now), micros(d.Seen), d.Waits, d.Origin, facts, parts, s.sign(&d.Machine, facts, parts), d.UUID); err != nil {
		return err
	}
	if err := putBoot(ctx, tx, d, now); err != nil {
		return err
	}
	return putEvents(ctx, tx, d.UUID, now, d.Events, kept(d.Waits, keptEvents, waitingEvents))
}

// kept is the number of events or other records per machine.
func kept(w Wait, usual, waiting int) int {
	if w == Counts {
		return usual
	}
	return waiting
}

// putMACs writes a machine's addresses. It refuses another approved machine's address as the boot address, and skips other such addresses, because that
// machine may have claimed them at the same time.
func (s machines) putMACs(ctx context.Context, tx Querier, d *Draft) error {
	if _, err := run(ctx, tx, "DELETE FROM machine_macs WHERE uuid = $1", d.UUID); err != nil {
		return err
	}
	forget := "DELETE FROM machine_claims WHERE uuid = $1"
	if d.Rivals == nil {
		forget += " AND place >= 0"
	}
	if _, err := run(ctx, tx, forget, d.UUID); err != nil {
		return err
	}
	if d.Waits != Counts {
		if err := claim(ctx, tx, d.UUID, d.MACs, func(i int) int { return i }); err != nil {
			return err
		}
	} else if err := s.own(ctx, tx, d); err != nil {
		return err
	}
	return claim(ctx, tx, d.UUID, d.Rivals, func(int) int { return -1 })
}

// own writes the addresses of an approved machine.
func (s machines) own(ctx context.Context, tx Querier, d *Draft) error {
	for place, mac := range d.MACs {
		n, err := run(ctx, tx, "INSERT INTO machine_macs (mac, uuid, place) VALUES ($1, $2, $3) ON CONFLICT (mac) DO NOTHING", mac, d.UUID, place)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		var other string
		if err := tx.QueryRowContext(ctx, "SELECT uuid FROM machine_macs WHERE mac = $1", mac).Scan(&other); err != nil {
			return err
		}
		if other == d.UUID {
			return fail.New(fail.Invalid, "the machine names its MAC address %s twice", mac).At(d.UUID)
		}
		if place > 0 {
			d.MACs = slices.DeleteFunc(slices.Clone(d.MACs), func(m string) bool { return m == mac })
			continue
		}
		return taken(mac, d.UUID, other)
	}
	return nil
}

func putLabels(ctx context.Context, tx Querier, d *Draft) error {
	if _, err := run(ctx, tx, "DELETE FROM machine_labels WHERE uuid = $1", d.UUID); err != nil {
		return err
	}
	for label, value := range d.Labels {
		if _, err := run(ctx, tx, "INSERT INTO machine_labels (uuid, label, value) VALUES ($1, $2, $3)", d.UUID, label, value); err != nil {
			return err
		}
	}
	return nil
}

// putBoot writes the boot and the journals of a draft, and forgets the oldest boots.
func putBoot(ctx context.Context, tx Querier, d *Draft, now time.Time) error {
	if d.Boot != nil {
		made, err := run(ctx, tx, "INSERT INTO machine_boots (uuid, boot_id, at) VALUES ($1, $2, $3) ON CONFLICT (uuid, boot_id) DO NOTHING", d.UUID, d.Boot.ID, micros(now))
		if err != nil {
			return err
		}
		if made > 0 && !d.New {
			if _, err := run(ctx, tx, `DELETE FROM machine_boots WHERE uuid = $1 AND boot_id NOT IN
				(SELECT boot_id FROM machine_boots WHERE uuid = $1 ORDER BY at DESC LIMIT $2)`, d.UUID, kept(d.Waits, keptBoots, waitingBoots)); err != nil {
				return err
			}
		}
	}
	for _, j := range d.Journals {
		lines, err := json.Marshal(j.Lines)
		if err != nil {
			return err
		}
		if _, err := run(ctx, tx, `INSERT INTO machine_journals (uuid, boot_id, kind, at, lines) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (uuid, boot_id, kind) DO UPDATE SET at = excluded.at, lines = excluded.lines`, d.UUID, j.BootID, j.Kind, micros(now),
			strings.ReplaceAll(string(lines), `\u0000`, `\ufffd`)); err != nil {
			return err
		}
	}
	return nil
}

// putEvents adds events, and forgets the oldest.
func putEvents(ctx context.Context, tx Querier, uuid string, now time.Time, events []Event, most int) error {
	if len(events) == 0 {
		return nil
	}
	var last int64
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq), 0) FROM machine_events WHERE uuid = $1", uuid).Scan(&last); err != nil {
		return err
	}
	for _, e := range events {
		last++
		if _, err := run(ctx, tx, "INSERT INTO machine_events (uuid, seq, at, what, detail) VALUES ($1, $2, $3, $4, $5)", uuid, last, micros(now), e.What, e.Detail); err != nil {
			return err
		}
	}
	_, err := run(ctx, tx, "DELETE FROM machine_events WHERE uuid = $1 AND seq <= $2", uuid, last-int64(most))
	return err
}

// Assign implements Store.
func (s machines) Assign(ctx context.Context, decide func(all []Machine) ([]Assigned, error)) error {
	err := s.db.Write(ctx, false, func(tx Querier) error {
		if err := errors.Join(s.db.Current(ctx, tx), s.lock(ctx, tx, "assign")); err != nil {
			return err
		}
		all, err := s.load(ctx, tx, false, " ORDER BY m.uuid")
		if err != nil {
			return err
		}
		s.lookable(ctx, tx, all)
		chosen, err := decide(all)
		if err != nil {
			return err
		}
		machines, sums := make([]*Machine, len(chosen)), make([]string, len(chosen))
		for i, a := range chosen {
			if machines[i], sums[i], err = s.locked(ctx, tx, a.UUID, false); err != nil {
				return err
			}
		}
		// Seats are emptied first, so that two machines can change places.
		for _, a := range chosen {
			if _, err := run(ctx, tx, "UPDATE machines SET cluster = '', pool = '', seat = 0 WHERE uuid = $1", a.UUID); err != nil {
				return err
			}
		}
		for i, a := range chosen {
			if err := s.putAssigned(ctx, tx, machines[i], sums[i], a); err != nil {
				return err
			}
		}
		return nil
	})
	if s.db.IsUnique(err) {
		return fail.Wrap(fail.Conflict, err, "a place in a pool would be given twice").Do("run the same command again")
	}
	return s.db.Wrap(err, "assign machines")
}

// atOnce is the number of machines whose facts are read together.
const atOnce = 50

// lookable sets Look, which reads facts in pages: those of the machine and of the following unassigned ones.
func (s machines) lookable(ctx context.Context, tx Querier, all []Machine) {
	page := map[string][]byte{}
	for i := range all {
		all[i].Look = func() ([]byte, error) {
			if facts, ok := page[all[i].UUID]; ok {
				return facts, nil
			}
			var marks []string
			var args []any
			for k := i; k < len(all) && len(args) < atOnce; k++ {
				if m := all[k]; k == i || m.Unusable == "" && m.Claim.Cluster == "" && len(m.Roles) == 0 {
					args = append(args, m.UUID)
					marks = append(marks, fmt.Sprintf("$%d", len(args)))
				}
			}
			clear(page)
			found, err := s.load(ctx, tx, true, " WHERE m.uuid IN ("+strings.Join(marks, ", ")+")", args...)
			for _, m := range found {
				page[m.UUID] = m.Facts
			}
			return page[all[i].UUID], err
		}
	}
}

func (s machines) putAssigned(ctx context.Context, tx Querier, m *Machine, facts string, a Assigned) error {
	now := time.Now()
	m.Claim, m.Roles = a.Claim, a.Roles
	if m.Waits != Counts {
		m.Waits = Kept
	}
	parts := PartsSum(m)
	if _, err := run(ctx, tx, "UPDATE machines SET cluster = $1, pool = $2, seat = $3, changed_at = $4, waits = $5, parts_sum = $6, mac = $7 WHERE uuid = $8",
		m.Claim.Cluster, m.Claim.Pool, m.Claim.Seat, micros(now), m.Waits, parts, s.sign(m, facts, parts), m.UUID); err != nil {
		return err
	}
	if _, err := run(ctx, tx, "DELETE FROM machine_roles WHERE uuid = $1", a.UUID); err != nil {
		return err
	}
	for _, role := range a.Roles {
		if _, err := run(ctx, tx, "INSERT INTO machine_roles (uuid, role) VALUES ($1, $2) ON CONFLICT (uuid, role) DO NOTHING", a.UUID, role); err != nil {
			return err
		}
	}
	return putEvents(ctx, tx, a.UUID, now, []Event{a.Event}, keptEvents)
}

// Forget implements Store.
func (s machines) Forget(ctx context.Context, uuid string) error {
	err := s.db.Write(ctx, false, func(tx Querier) error {
		n, err := run(ctx, tx, "DELETE FROM machines WHERE uuid = $1", uuid)
		if err == nil && n == 0 {
			return unknown(uuid)
		}
		_, e := run(ctx, tx, "DELETE FROM slots WHERE holder = $1", uuid)
		return errors.Join(err, e)
	})
	return s.db.Wrap(err, "forget the machine %s", uuid)
}
