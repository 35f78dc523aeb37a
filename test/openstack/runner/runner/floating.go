package runner

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/naupegos/naupegos/internal/tool"
)

// metadataAddress is the address of the metadata service in a cloud.
const metadataAddress = "169.254.169.254"

// served is a Neutron network that has a bridge on this host.
type served struct {
	Bridge string
	Prefix netip.Prefix
	Proxy  netip.AddrPort // of the metadata proxy
}

// translation renders the bed's nftables table: floating IPs, for traffic from this host and from machines, and the metadata address. The first
// two lines replace an earlier table. Packets from a machine to a floating IP of its own network must return through this host, hence the
// masquerade.
func translation(table string, nets []served, floats []floating) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("table ip %s\ndelete table ip %s\ntable ip %s {", table, table, table)
	line("\tchain prerouting {\n\t\ttype nat hook prerouting priority dstnat; policy accept;")
	for _, n := range nets {
		line("\t\tiifname %q ip daddr %s tcp dport 80 dnat to %s", n.Bridge, metadataAddress, n.Proxy)
	}
	for _, f := range floats {
		line("\t\tip daddr %s dnat to %s", f.Address, f.Fixed)
	}
	line("\t}\n\tchain output {\n\t\ttype nat hook output priority -100; policy accept;")
	for _, f := range floats {
		line("\t\tip daddr %s dnat to %s", f.Address, f.Fixed)
	}
	line("\t}\n\tchain postrouting {\n\t\ttype nat hook postrouting priority srcnat; policy accept;")
	for _, n := range nets {
		line("\t\tip saddr %s ip daddr %s ct status dnat masquerade", n.Prefix, n.Prefix)
	}
	line("\t}\n}")
	return b.String()
}

// reachable returns the floating IPs whose target is in one of the networks.
func reachable(floats []floating, nets []served) []floating {
	var out []floating
	for _, f := range floats {
		for _, n := range nets {
			if n.Prefix.Contains(f.Fixed) {
				out = append(out, f)
				break
			}
		}
	}
	return out
}

func applyRules(ctx context.Context, rules string) error {
	_, err := tool.Run(ctx, strings.NewReader(rules), "nft", "-f", "-")
	return err
}

func removeTable(ctx context.Context, table string) error {
	return applyRules(ctx, fmt.Sprintf("table ip %[1]s\ndelete table ip %[1]s\n", table))
}
