package metal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Tables whose rows carry MACs: see DB.Sign.
const (
	TableMachines   = "machines"
	TableLockTokens = "lock_tokens"
)

// seal is the part of a row of machines that authenticates it: its MAC covers the row with both sums.
type seal struct {
	mac   string
	facts string // FactsSum
	parts string // PartsSum
}

// FactsSum returns the digest of a machine's facts. The MAC covers it instead of the facts, so that lists are verified without reading facts.
func FactsSum(facts []byte) string {
	sum := sha256.Sum256(facts)
	return hex.EncodeToString(sum[:])
}

// PartsSum returns the digest of what other tables hold about a machine: labels, roles, and the addresses of an approved machine. Addresses that a pending
// machine claims prove nothing and are left out.
func PartsSum(m *Machine) string {
	roles := slices.Sorted(slices.Values(m.Roles)) // databases sort in different ways
	parts := [][]string{nil, slices.Compact(roles), {}}
	if m.Waits == Counts {
		parts[0] = m.MACs
	}
	for _, label := range slices.Sorted(maps.Keys(m.Labels)) {
		parts[2] = append(parts[2], label, m.Labels[label])
	}
	for i := range parts {
		if parts[i] == nil {
			parts[i] = []string{}
		}
	}
	text, err := json.Marshal(parts)
	if err != nil { // never for strings
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// signed returns the values that the MAC of a row covers, in the order of internal/store's list of columns.
func signed(m *Machine, factsSum, partsSum string) []string {
	return []string{m.UUID, m.Name, m.State, m.Approval, strconv.Itoa(int(m.Waits)), m.Origin, m.Unusable,
		m.Claim.Cluster, m.Claim.Pool, strconv.Itoa(m.Claim.Seat), string(m.Record), factsSum, partsSum}
}

// readAgain is how often a machine is read again whose parts do not match its row.
const readAgain = 10

// genuine verifies a machine. It returns nil for one that was forgotten meanwhile.
func (s machines) genuine(ctx context.Context, q Querier, m Machine, is seal, facts bool) (*Machine, error) {
	for try := 0; ; try++ {
		sum := is.facts
		if facts {
			sum = FactsSum(m.Facts)
		}
		parts := PartsSum(&m)
		err := s.db.Verify(ctx, q, TableMachines, is.mac, signed(&m, sum, parts)...)
		if err == nil || parts == is.parts || try == readAgain {
			return &m, err
		}
		// Outside a transaction, rows of several tables are of several moments: another process may have changed the machine in between.
		all, seals, err := read(ctx, q, facts, " WHERE m.uuid = $1", m.UUID)
		if err != nil || len(all) == 0 {
			return nil, err
		}
		m, is = all[0], seals[0]
	}
}

// load reads machines with all that belongs to them, and refuses those that were not written with the store's identity.
func (s machines) load(ctx context.Context, q Querier, facts bool, tail string, args ...any) ([]Machine, error) {
	all, seals, err := read(ctx, q, facts, tail, args...)
	if err != nil {
		return nil, err
	}
	there := all[:0]
	for i := range all {
		m, err := s.genuine(ctx, q, all[i], seals[i], facts)
		if err != nil {
			return nil, err
		}
		if m != nil {
			there = append(there, *m)
		}
	}
	return there, nil
}

// locked reads one machine, and keeps other processes from changing it until the transaction ends. It returns the sum of the facts instead of the facts if
// they are not wanted.
func (s machines) locked(ctx context.Context, tx Querier, uuid string, facts bool) (*Machine, string, error) {
	if lock := s.db.ForUpdate(); lock != "" {
		var got string
		if err := tx.QueryRowContext(ctx, "SELECT uuid FROM machines WHERE uuid = $1"+lock, uuid).Scan(&got); err != nil && !isNoRows(err) {
			return nil, "", err
		}
	}
	all, seals, err := read(ctx, tx, facts, " WHERE m.uuid = $1", uuid)
	if err != nil {
		return nil, "", err
	}
	if len(all) == 0 {
		return nil, "", unknown(uuid)
	}
	m, err := s.genuine(ctx, tx, all[0], seals[0], facts)
	if err == nil && m == nil {
		err = unknown(uuid)
	}
	return m, seals[0].facts, err
}

// sign returns the MAC of a machine's row.
func (s machines) sign(m *Machine, factsSum, partsSum string) string {
	return s.db.Sign(TableMachines, signed(m, factsSum, partsSum)...)
}

// genuineRow verifies the row of a machine alone, without what other tables hold.
func (s machines) genuineRow(ctx context.Context, q Querier, m *Machine, is seal) error {
	return s.db.Verify(ctx, q, TableMachines, is.mac, signed(m, is.facts, is.parts)...)
}

// tokenValues returns the values that the MAC of a group's token covers.
func tokenValues(t *LockToken) []string {
	return []string{t.ID, t.Group, t.Hash, strconv.FormatInt(micros(t.Created), 10), strconv.FormatInt(micros(t.Expires), 10)}
}
