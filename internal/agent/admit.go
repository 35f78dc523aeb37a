package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Admit adds addresses to a set of an nftables table of family inet, each for the given duration. If there is no such table, nothing is filtered, and
// Admit does nothing.
func (a *Agent) Admit(ctx context.Context, table, set string, long time.Duration, addresses []string) error {
	for _, s := range addresses {
		if _, err := netip.ParseAddr(s); err != nil {
			return fail.Wrap(fail.Invalid, err, "admit %q", s)
		}
	}
	if _, err := a.run.Run(ctx, nil, "nft", "list", "table", "inet", table); err != nil {
		var gone *CommandError
		if errors.As(err, &gone) || errors.Is(err, exec.ErrNotFound) {
			return nil
		}
		return unitFailure(ctx, err, "look for the packet filter")
	}
	for _, s := range addresses {
		element := fmt.Sprintf("{ %s timeout %ds }", s, int(long.Seconds()))
		if _, err := a.run.Run(ctx, nil, "nft", "add", "element", "inet", table, set, element); err != nil {
			return unitFailure(ctx, err, "let "+s+" through the packet filter")
		}
	}
	return nil
}
