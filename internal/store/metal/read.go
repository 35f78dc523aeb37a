package metal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// byMAC selects the machine of a MAC address: the approved machine, or else the only claimant.
const byMAC = "m.uuid = COALESCE((SELECT uuid FROM machine_macs WHERE mac = $1), (SELECT MIN(uuid) FROM machine_claims WHERE mac = $1 HAVING COUNT(*) = 1))"

const (
	columns = "m.uuid, m.name, m.state, m.approval, m.waits, m.origin, m.unusable, m.cluster, m.pool, m.seat, m.record, m.created_at, m.changed_at, m.seen_at, m.mac, m.facts_sum, m.parts_sum, " +
		"r.boot_id, r.digest, r.sequence, r.at"
	tables = " FROM machines m LEFT JOIN machine_reports r ON r.uuid = m.uuid"
)

// inPage is up to how many machines are named one by one where what belongs to them is read.
const inPage = 200

// Machine implements Store.
func (s machines) Machine(ctx context.Context, uuid string) (*Machine, error) {
	return s.single(ctx, uuid, "m.uuid = $1")
}

// ByMAC implements Store.
func (s machines) ByMAC(ctx context.Context, mac string) (*Machine, error) {
	m, err := s.single(ctx, mac, byMAC)
	if fail.KindOf(err) != fail.NotFound {
		return m, err
	}
	if e := s.db.Read(ctx, func(q Querier) error { return s.ambiguous(ctx, q, mac) }); e != nil {
		err = e
	}
	return nil, s.db.Wrap(err, "read the machine %s", mac)
}

// ByName implements Store.
func (s machines) ByName(ctx context.Context, name string) (*Machine, error) {
	return s.single(ctx, name, "m.name = $1 AND m.name <> ''")
}

// Lookup implements Store.
func (s machines) Lookup(ctx context.Context, uuid, mac string) (*Machine, error) {
	where, args := "m.uuid = $1", []any{uuid}
	switch {
	case uuid == "":
		where, args = byMAC, []any{mac}
	case mac != "":
		where, args = where+" AND (EXISTS (SELECT 1 FROM machine_macs a WHERE a.mac = $2 AND a.uuid = m.uuid) OR "+
			"EXISTS (SELECT 1 FROM machine_claims a WHERE a.mac = $2 AND a.uuid = m.uuid))", append(args, mac)
	}
	var all []sealedMachine
	err := s.db.Read(ctx, func(q Querier) (err error) {
		all, err = rows(ctx, q, func(r *sql.Rows) (sealedMachine, error) {
			m, err := scanMachine(r, true)
			m.MACs, m.Facts = []string{string(m.Facts)}, nil
			return m, err
		}, "SELECT "+columns+", COALESCE((SELECT mac FROM machine_macs b WHERE b.uuid = m.uuid AND b.place = 0), "+
			"(SELECT mac FROM machine_claims c WHERE c.uuid = m.uuid AND c.place = 0), '')"+tables+" WHERE "+where, args...)
		if err == nil && len(all) > 0 {
			err = s.genuineRow(ctx, q, &all[0].Machine, all[0].seal)
		}
		return err
	})
	if err == nil && len(all) == 0 {
		return nil, unknown(strings.Trim(uuid+" "+mac, " "))
	}
	if err != nil {
		return nil, s.db.Wrap(err, "read the machine %s", uuid+mac)
	}
	return &all[0].Machine, nil
}

func (s machines) single(ctx context.Context, value, where string) (*Machine, error) {
	var all []Machine
	err := s.db.Read(ctx, func(q Querier) (err error) {
		all, err = s.load(ctx, q, true, " WHERE "+where, value)
		return err
	})
	if err == nil && len(all) == 0 {
		return nil, unknown(value)
	}
	if err != nil {
		return nil, s.db.Wrap(err, "read the machine %s", value)
	}
	return &all[0], nil
}

// Find implements Store.
func (s machines) Find(ctx context.Context, query Query) (all []Machine, total int, err error) {
	where, args := query.where()
	order, ok := map[string]string{
		"": "m.uuid", "uuid": "m.uuid", "name": "m.name, m.uuid", "state": "m.state, m.uuid", "seen": "COALESCE(r.at, m.seen_at) DESC, m.uuid",
		"-uuid": "m.uuid DESC", "-name": "m.name DESC, m.uuid DESC", "-state": "m.state DESC, m.uuid DESC", "-seen": "COALESCE(r.at, m.seen_at), m.uuid DESC",
	}[query.Order]
	if !ok {
		return nil, 0, fail.New(fail.Invalid, "machines can't be sorted by %q", query.Order).Do("sort them by uuid, name, state or seen, the other way with - before that")
	}
	tail := where + " ORDER BY " + order
	if query.Limit > 0 {
		tail += fmt.Sprintf(" LIMIT %d OFFSET %d", query.Limit, max(query.Offset, 0))
	}
	err = s.db.Read(ctx, func(q Querier) (err error) {
		if all, err = s.load(ctx, q, query.Facts, tail, args...); err != nil || query.Limit == 0 {
			total = len(all)
			return err
		}
		return q.QueryRowContext(ctx, "SELECT COUNT(*) FROM machines m"+where, args...).Scan(&total)
	})
	return all, total, s.db.Wrap(err, "list the machines")
}

// where is the query as SQL.
func (q Query) where() (string, []any) {
	var parts []string
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	for column, v := range map[string]string{"state": q.State, "approval": q.Approval, "cluster": q.Cluster, "pool": q.Pool} {
		if v != "" {
			parts = append(parts, "m."+column+" = "+arg(v))
		}
	}
	if q.Role != "" {
		parts = append(parts, "m.uuid IN (SELECT uuid FROM machine_roles WHERE role = "+arg(q.Role)+")")
	}
	if q.Unusable != "" {
		parts = append(parts, "m.unusable <> ''") // so the index says
		if q.Unusable != AnyWord {
			parts = append(parts, "m.unusable = "+arg(q.Unusable))
		}
	}
	if q.Free || q.Unusable != "" {
		parts = append(parts, "m.cluster = '' AND NOT EXISTS (SELECT 1 FROM machine_roles o WHERE o.uuid = m.uuid)")
	}
	for label, v := range q.Labels {
		parts = append(parts, "m.uuid IN (SELECT uuid FROM machine_labels WHERE label = "+arg(label)+" AND value = "+arg(v)+")")
	}
	if q.Text != "" {
		text := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(q.Text))
		p := arg("%" + text + "%")
		parts = append(parts, `(m.uuid LIKE `+p+` ESCAPE '\' OR LOWER(m.name) LIKE `+p+` ESCAPE '\' OR m.uuid IN (SELECT uuid FROM machine_macs WHERE mac LIKE `+p+` ESCAPE '\') OR m.uuid IN (SELECT uuid FROM machine_claims WHERE mac LIKE `+p+` ESCAPE '\'))`)
	}
	if len(parts) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(parts, " AND "), args
}

// sealedMachine is a machine with what authenticates its row.
type sealedMachine struct {
	Machine
	seal
}

// read reads machines with all that belongs to them, and does not verify them.
func read(ctx context.Context, q Querier, facts bool, tail string, args ...any) ([]Machine, []seal, error) {
	what := columns + ", ''"
	if facts {
		what = columns + ", m.facts"
	}
	found, err := rows(ctx, q, func(r *sql.Rows) (sealedMachine, error) { return scanMachine(r, facts) }, "SELECT "+what+tables+tail, args...)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	all, seals := make([]Machine, len(found)), make([]seal, len(found))
	for i, m := range found {
		all[i], seals[i] = m.Machine, m.seal
	}
	return all, seals, errors.Join(belongings(ctx, q, all)...)
}

func scanMachine(r *sql.Rows, withFacts bool) (m sealedMachine, err error) {
	var record, facts string
	var created, changed, seen int64
	var boot, digest sql.NullString
	var sequence, at sql.NullInt64
	if err := r.Scan(&m.UUID, &m.Name, &m.State, &m.Approval, &m.Waits, &m.Origin, &m.Unusable, &m.Claim.Cluster, &m.Claim.Pool, &m.Claim.Seat, &record, &created, &changed, &seen,
		&m.mac, &m.facts, &m.parts, &boot, &digest, &sequence, &at, &facts); err != nil {
		return m, err
	}
	m.Record, m.Labels = []byte(record), map[string]string{}
	if withFacts {
		m.Facts = []byte(facts)
	}
	if at.Valid {
		m.Report = &Report{UUID: m.UUID, BootID: boot.String, Digest: digest.String, Sequence: sequence.Int64, At: fromMicros(at.Int64)}
	}
	m.Created, m.Changed, m.Seen = fromMicros(created), fromMicros(changed), fromMicros(max(seen, at.Int64))
	return m, nil
}

// belongings reads addresses, labels and roles.
func belongings(ctx context.Context, q Querier, all []Machine) (errs []error) {
	index := make(map[string]*Machine, len(all))
	for i := range all {
		index[all[i].UUID] = &all[i]
	}
	where, args := "", []any{}
	if len(all) <= inPage {
		marks := make([]string, 0, len(all))
		for _, m := range all {
			args = append(args, m.UUID)
			marks = append(marks, fmt.Sprintf("$%d", len(args)))
		}
		where = " WHERE uuid IN (" + strings.Join(marks, ", ") + ")"
	}
	each := func(query string, put func(m *Machine, a, b string)) {
		_, err := rows(ctx, q, func(r *sql.Rows) (none struct{}, err error) {
			var uuid, a, b string
			if err = r.Scan(&uuid, &a, &b); err == nil && index[uuid] != nil {
				put(index[uuid], a, b)
			}
			return none, err
		}, query, args...)
		errs = append(errs, err)
	}
	each("SELECT uuid, mac, '' FROM machine_macs"+where+" ORDER BY uuid, place", func(m *Machine, mac, _ string) { m.MACs = append(m.MACs, mac) })
	if slices.ContainsFunc(all, func(m Machine) bool { return m.Waits != Counts }) {
		also := " WHERE place >= 0"
		if where != "" {
			also = where + " AND place >= 0"
		}
		each("SELECT uuid, mac, '' FROM machine_claims"+also+" ORDER BY uuid, place", func(m *Machine, mac, _ string) {
			if m.Waits != Counts {
				m.MACs = append(m.MACs, mac)
			}
		})
	}
	each("SELECT uuid, label, value FROM machine_labels"+where, func(m *Machine, k, v string) { m.Labels[k] = v })
	each("SELECT uuid, role, '' FROM machine_roles"+where+" ORDER BY uuid, role", func(m *Machine, role, _ string) { m.Roles = append(m.Roles, role) })
	return errs
}

// Counts implements Store.
func (s machines) Counts(ctx context.Context) (map[string]int, error) {
	all := map[string]int{}
	err := s.db.Read(ctx, func(q Querier) error {
		clear(all)
		_, err := rows(ctx, q, func(r *sql.Rows) (struct{}, error) {
			var state string
			var n int
			err := r.Scan(&state, &n)
			all[state] = n
			return struct{}{}, err
		}, "SELECT state, COUNT(*) FROM machines GROUP BY state")
		return err
	})
	return all, s.db.Wrap(err, "count the machines")
}
