// Package netbooting implements the flags of naupegos server for machines that boot from the network, and the verb that imports a matchbox. It parses
// flags, makes one call and prints the result.
package netbooting

import (
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/netboot/dhcp"
)

// Dir returns the directory with the boot configuration in a state directory.
func Dir(stateDir string) string { return filepath.Join(stateDir, "boot") }

// Flags are the flags of naupegos server about machines that boot from the network.
type Flags struct {
	iface, address, mode, span, router string
	dns                                []string
	lease                              time.Duration
	image                              string
	args                               []string
}

// Bind adds the flags.
func (f *Flags) Bind(set *pflag.FlagSet) {
	set.StringVar(&f.iface, "netboot-interface", "", "network interface that machines boot over: TFTP with iPXE, router advertisements, and DHCP as --dhcp says (default none: HTTP only)")
	set.StringVar(&f.address, "netboot-address", "", "this host's address on that interface (default its first IPv4 address)")
	set.StringVar(&f.mode, "dhcp", "proxy", "DHCP on that interface: off, proxy (beside a DHCP server that assigns addresses), or on (assign addresses as well)")
	set.StringVar(&f.span, "dhcp-range", "", "with --dhcp on: the addresses to assign, such as 10.0.0.100-10.0.0.200")
	set.StringVar(&f.router, "dhcp-router", "", "with --dhcp on: the default route of machines (default none)")
	set.StringSliceVar(&f.dns, "dhcp-dns", nil, "with --dhcp on: a DNS server for machines (repeatable; default none)")
	set.StringVar(&f.image, "discovery-image", "", "what machines boot that match no group: a directory that naupegos image discovery --dir has written, or none (default: it is made)")
	set.StringArrayVar(&f.args, "discovery-arg", nil, "additional kernel argument of the discovery image, such as console=ttyS1,115200 (repeatable)")
	set.DurationVar(&f.lease, "dhcp-lease", time.Hour, "with --dhcp on: how long an address is leased")
}

// Config returns the configuration from the flags. httpAddress is the address of the boot endpoints, in the form of --listen-http.
func (f *Flags) Config(stateDir, httpAddress string, log *slog.Logger) (netboot.Config, error) {
	cfg := netboot.Config{Interface: f.iface, DHCP: netboot.Mode(f.mode), Lease: f.lease, Log: log}
	if f.iface == "" {
		if f.span != "" || f.router != "" || len(f.dns) > 0 || f.address != "" {
			return cfg, fail.New(fail.Invalid, "--netboot-address and the flags --dhcp-… need --netboot-interface")
		}
		return cfg, nil
	}
	_, port, err := net.SplitHostPort(httpAddress)
	if err != nil {
		return cfg, fail.Wrap(fail.Invalid, err, "the address of the boot endpoints, %q", httpAddress)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return cfg, fail.New(fail.Invalid, "machines need to be told a port, and %q has none", httpAddress).Do("say --listen-http :8080")
	}
	cfg.HTTP = uint16(n)
	if cfg.DHCP == netboot.On {
		cfg.Leases = filepath.Join(stateDir, "dhcp", "leases")
	}
	if f.span != "" {
		if cfg.Range, err = dhcp.ParseRange(f.span); err != nil {
			return cfg, err
		}
	}
	if cfg.Address, err = address("--netboot-address", f.address); err != nil {
		return cfg, err
	}
	if cfg.Router, err = address("--dhcp-router", f.router); err != nil {
		return cfg, err
	}
	for _, d := range f.dns {
		a, err := address("--dhcp-dns", d)
		if err != nil {
			return cfg, err
		}
		cfg.DNS = append(cfg.DNS, a)
	}
	return cfg, nil
}

func address(flag, s string) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return a, fail.New(fail.Invalid, "%s %q is not an IPv4 address", flag, s)
	}
	return a, nil
}
