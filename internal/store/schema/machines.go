package schema

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3"

	"github.com/naupegos/naupegos/internal/store/metal"
)

// machineMACs is migration 19: rows of machines and of their groups' tokens get columns for MACs. Sums stand for a machine's facts and for what other tables
// hold about it. internal/store makes the MACs.
func machineMACs() *goose.Migration {
	return goose.NewGoMigration(19, &goose.GoFunc{RunTx: addMachineMACs}, nil)
}

func addMachineMACs(ctx context.Context, tx *sql.Tx) error {
	for _, do := range []string{"ALTER TABLE machines ADD COLUMN mac TEXT NOT NULL DEFAULT ''", "ALTER TABLE machines ADD COLUMN facts_sum TEXT NOT NULL DEFAULT ''",
		"ALTER TABLE machines ADD COLUMN parts_sum TEXT NOT NULL DEFAULT ''", "ALTER TABLE lock_tokens ADD COLUMN mac TEXT NOT NULL DEFAULT ''"} {
		if _, err := tx.ExecContext(ctx, do); err != nil {
			return err
		}
	}
	all, err := machineParts(ctx, tx)
	if err != nil {
		return err
	}
	for uuid, m := range all { // one at a time: facts can be large
		var facts string
		if err := tx.QueryRowContext(ctx, "SELECT facts FROM machines WHERE uuid = $1", uuid).Scan(&facts); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE machines SET facts_sum = $1, parts_sum = $2 WHERE uuid = $3", metal.FactsSum([]byte(facts)), metal.PartsSum(m), uuid); err != nil {
			return err
		}
	}
	return nil
}

// machineParts returns what metal.PartsSum covers, by UUID, as schema 18 has it.
func machineParts(ctx context.Context, tx *sql.Tx) (map[string]*metal.Machine, error) {
	all := map[string]*metal.Machine{}
	each := func(query string, put func(uuid, a, b string)) error {
		_, err := rows(ctx, tx, func(r *sql.Rows) (none struct{}, err error) {
			var uuid, a, b string
			if err = r.Scan(&uuid, &a, &b); err == nil {
				put(uuid, a, b)
			}
			return none, err
		}, query)
		return err
	}
	machine := func(waits metal.Wait) func(uuid, _, _ string) {
		return func(uuid, _, _ string) { all[uuid] = &metal.Machine{Waits: waits, Labels: map[string]string{}} }
	}
	return all, errors.Join(
		each("SELECT uuid, '', '' FROM machines WHERE waits = 0", machine(metal.Counts)),
		each("SELECT uuid, '', '' FROM machines WHERE waits <> 0", machine(metal.Kept)),
		each("SELECT uuid, mac, '' FROM machine_macs ORDER BY uuid, place", func(uuid, mac, _ string) { all[uuid].MACs = append(all[uuid].MACs, mac) }),
		each("SELECT uuid, label, value FROM machine_labels", func(uuid, label, value string) { all[uuid].Labels[label] = value }),
		each("SELECT uuid, role, '' FROM machine_roles", func(uuid, role, _ string) { all[uuid].Roles = append(all[uuid].Roles, role) }))
}
