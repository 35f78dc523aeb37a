package hostnet

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"strings"
)

// Resolvers returns the host's upstream name servers that machines can use, and its search domains. Machines can't use a resolver on
// the loopback address, so if /etc/resolv.conf has no other, Resolvers reads systemd-resolved's upstream list.
// An empty list is not an error; machines then resolve only /etc/hosts.
func Resolvers() (servers []netip.Addr, search []string, err error) {
	for _, path := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if servers, search = parseResolvConf(string(data)); len(servers) > 0 {
			return servers, search, nil
		}
	}
	return nil, nil, nil
}

// parseResolvConf parses resolv.conf(5) text. It returns at most three name servers, those with IPv4 addresses other than loopback.
func parseResolvConf(text string) (servers []netip.Addr, search []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case f[0] == "nameserver":
			a, err := netip.ParseAddr(f[1])
			if err == nil && a.Is4() && !a.IsLoopback() && !a.IsUnspecified() && len(servers) < 3 {
				servers = append(servers, a)
			}
		case f[0] == "search" || f[0] == "domain":
			search = f[1:]
		}
	}
	return servers, search
}

// ResolvConf renders a machine's /etc/resolv.conf.
func ResolvConf(servers []netip.Addr, search []string) []byte {
	var b strings.Builder
	b.WriteString("# as on the host when the machine was made\n")
	for _, s := range servers {
		b.WriteString("nameserver " + s.String() + "\n")
	}
	if len(search) > 0 {
		b.WriteString("search " + strings.Join(search, " ") + "\n")
	}
	return []byte(b.String())
}
