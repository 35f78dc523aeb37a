package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// flushed reports whether nftables has no rules in a table: programs such as nftables.service flush all tables before they load their own rules.
func flushed(ctx context.Context, run Runner, table string) bool {
	out, err := run.Run(ctx, nil, append([]string{"nft", "--json", "list", "table"}, strings.Fields(table)...)...)
	var failed *CommandError
	if err != nil {
		return errors.As(err, &failed) && strings.Contains(failed.Stderr, "No such file or directory")
	}
	var list struct {
		Nftables []map[string]json.RawMessage `json:"nftables"`
	}
	return json.Unmarshal(out, &list) == nil && !slices.ContainsFunc(list.Nftables, func(e map[string]json.RawMessage) bool { return e["rule"] != nil })
}
