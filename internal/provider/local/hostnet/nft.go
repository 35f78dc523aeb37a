package hostnet

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// natRules renders the cluster's nftables table: packets that leave the subnet through another interface get the host's address.
// The first two lines remove an existing table.
func natRules(table, bridge string, subnet netip.Prefix) string {
	return fmt.Sprintf(`table inet %[1]s
delete table inet %[1]s
table inet %[1]s {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr %[3]s oifname != "%[2]s" masquerade
	}
}
`, table, bridge, subnet)
}

// TableExists reports whether nftables has a table of this name, family inet.
func TableExists(ctx context.Context, table string) (bool, error) {
	if os.Geteuid() != 0 {
		return false, fail.New(fail.Refused, "local machines need root, even to look at what there is").Do("run the same command with sudo -E")
	}
	out, err := tool.Run(ctx, nil, "nft", "list", "tables", "inet")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == "table inet "+table {
			return true, nil
		}
	}
	return false, nil
}

// MakeTable makes the cluster's nftables table, or replaces it.
func MakeTable(ctx context.Context, table, bridge string, subnet netip.Prefix) error {
	return applyRules(ctx, natRules(table, bridge, subnet))
}

func applyRules(ctx context.Context, rules string) error {
	_, err := tool.Run(ctx, strings.NewReader(rules), "nft", "-f", "-")
	return err
}

// RemoveTable removes the cluster's nftables table, if it exists.
func RemoveTable(ctx context.Context, table string) error {
	return applyRules(ctx, fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n", table))
}

// forwardRules returns the iptables rules that let a bridge's packets through a host whose FORWARD policy is DROP (Docker
// sets it). A separate nftables table can't do this: a packet must pass every table.
func forwardRules(bridge, table string) [][]string {
	return [][]string{
		{"-i", bridge, "-m", "comment", "--comment", table, "-j", "ACCEPT"},
		{"-o", bridge, "-m", "comment", "--comment", table, "-j", "ACCEPT"},
	}
}

// forwardDrops reports whether iptables is installed and its FORWARD policy is DROP.
func forwardDrops(ctx context.Context) (bool, error) {
	if _, err := exec.LookPath("iptables"); err != nil {
		return false, nil // without iptables its policy can't have been set
	}
	out, err := tool.Run(ctx, nil, "iptables", "-w", "-S", "FORWARD")
	if err != nil {
		return false, err
	}
	return strings.Contains(out, "-P FORWARD DROP"), nil
}

// AllowForward reports whether a forward rule is needed and missing; with change it also inserts the missing rules.
func AllowForward(ctx context.Context, bridge, table string, change bool) (missing bool, err error) {
	drops, err := forwardDrops(ctx)
	if err != nil || !drops {
		return false, err
	}
	for _, rule := range forwardRules(bridge, table) {
		if _, err := tool.Run(ctx, nil, "iptables", append([]string{"-w", "-C", "FORWARD"}, rule...)...); err == nil {
			continue
		}
		missing = true
		if !change {
			continue
		}
		if _, err := tool.Run(ctx, nil, "iptables", append([]string{"-w", "-I", "FORWARD"}, rule...)...); err != nil {
			return true, err
		}
	}
	return missing, nil
}

// RemoveForward deletes the forward rules, regardless of the current policy.
func RemoveForward(ctx context.Context, bridge, table string) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil
	}
	out, err := tool.Run(ctx, nil, "iptables", "-w", "-S", "FORWARD")
	if err != nil || !strings.Contains(out, table) {
		return err
	}
	for _, rule := range forwardRules(bridge, table) {
		if _, err := tool.Run(ctx, nil, "iptables", append([]string{"-w", "-D", "FORWARD"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}
