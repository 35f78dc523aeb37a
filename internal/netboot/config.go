package netboot

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot/dhcp"
	"github.com/naupegos/naupegos/internal/netboot/programs"
)

// Mode is a server's role in DHCP.
type Mode string

// The modes. A link must not have two DHCP servers: On is refused if another one answers.
const (
	Off   Mode = "off"   // no DHCP: the link's DHCP server names this server's TFTP and file
	Proxy Mode = "proxy" // tells machines where to boot from; another DHCP server assigns addresses
	On    Mode = "on"    // also assigns addresses
)

// Config describes the services, and their interface.
type Config struct {
	Interface string
	Address   netip.Addr // of this server; invalid: the first IPv4 address of the interface
	HTTP      uint16     // the port of the boot endpoints
	DHCP      Mode

	// Only with mode On.
	Range  dhcp.Range
	Router netip.Addr    // invalid: machines get no default route
	DNS    []netip.Addr  // none: machines get no name servers
	Lease  time.Duration // zero: an hour
	Leases string        // the file of leases; empty: leases are not stored

	Programs []string     // directories with iPXE; none: those of common distributions
	Log      *slog.Logger `json:"-"`
}

// link is the network interface that machines boot over.
type link struct {
	*net.Interface
	prefix netip.Prefix // its address and network
}

// check returns the link and sets the config's defaults.
func (c *Config) check() (link, error) {
	if c.Lease == 0 {
		c.Lease = time.Hour
	}
	if len(c.Programs) == 0 {
		c.Programs = programs.Directories
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch c.DHCP {
	case Off, Proxy, On:
	default:
		return link{}, fail.New(fail.Invalid, "there is no DHCP mode %q", c.DHCP).Do("say off, proxy or on")
	}
	dev, err := net.InterfaceByName(c.Interface)
	if err != nil {
		return link{}, fail.Wrap(fail.NotFound, err, "network interface %q", c.Interface).Do("ip link shows the existing ones")
	}
	l := link{Interface: dev}
	if l.prefix, err = c.find(dev); err != nil {
		return link{}, err
	}
	c.Address = l.prefix.Addr()
	return l, c.checkRange(l)
}

// find returns this server's address on an interface.
func (c *Config) find(dev *net.Interface) (netip.Prefix, error) {
	addrs, err := dev.Addrs()
	if err != nil {
		return netip.Prefix{}, fail.Wrap(fail.Internal, err, "read the addresses").At(dev.Name)
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && (!c.Address.IsValid() || p.Addr() == c.Address) {
			return p, nil
		}
	}
	if c.Address.IsValid() {
		return netip.Prefix{}, fail.New(fail.NotFound, "there is no address %s", c.Address).At(dev.Name)
	}
	return netip.Prefix{}, fail.New(fail.NotFound, "there is no IPv4 address").At(dev.Name).Do("give it one: ip address add 10.0.0.1/24 dev %s", dev.Name)
}

func (c *Config) checkRange(l link) error {
	given := c.Range.First.IsValid()
	switch {
	case c.DHCP != On && given:
		return fail.New(fail.Invalid, "a range of addresses is for DHCP mode on, and this is %s", c.DHCP)
	case c.DHCP != On:
		return nil
	case !given:
		return fail.New(fail.Invalid, "DHCP mode on needs a range of addresses").Do("name an unused one: --dhcp-range 10.0.0.100-10.0.0.200")
	case !l.prefix.Contains(c.Range.First) || !l.prefix.Contains(c.Range.Last):
		return fail.New(fail.Invalid, "the range %s-%s is not in %s, the network of %s", c.Range.First, c.Range.Last, l.prefix.Masked(), l.Name)
	case c.Router.IsValid() && !l.prefix.Contains(c.Router):
		return fail.New(fail.Invalid, "the router %s is not in %s, the network of %s", c.Router, l.prefix.Masked(), l.Name)
	}
	return nil
}
