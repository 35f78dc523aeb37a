package bed

import (
	"bytes"
	"context"
	"os/exec"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// DB runs one SQL statement as the database administrator and returns the rows, with NULL as "NULL". Tests use it to read what no API returns,
// such as the user-data of a server (database nova, table instances).
// The databases are keystone, glance, placement, nova_api, nova, nova_cell0, neutron, cinder, octavia, designate.
func (b *Bed) DB(ctx context.Context, database, statement string) ([][]string, error) {
	args := []string{"--no-defaults", "--user=root", "--socket=" + b.socket(), "--batch", "--skip-column-names"}
	if database != "" {
		args = append(args, "--database="+database)
	}
	cmd := exec.CommandContext(ctx, "mariadb", args...)
	cmd.Stdin = strings.NewReader(statement)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "ask the database: %s", strings.TrimSpace(stderr.String()))
	}
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i := range row {
			row[i] = unescape.Replace(row[i])
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// unescape reverses the escaping of the client's batch mode.
var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\0`, "\x00")
