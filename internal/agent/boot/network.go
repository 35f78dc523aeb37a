package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/vishvananda/netlink"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

const (
	othersWithin = 3 * time.Second // how long other links are waited for once the one that the machine has booted by has an address
	leaseWithin  = 15 * time.Second
)

// links are the machine's network interfaces, as far as listening to switches goes.
func (b *boot) links() (all []facts.Interface) {
	found, _ := filepath.Glob(b.root.Path("/sys/class/net/*/device")) // the pattern is a good one
	for _, device := range found {
		name := filepath.Base(filepath.Dir(device))
		all = append(all, facts.Interface{Name: name, MAC: b.root.Read("/sys/class/net/" + name + "/address"), Link: b.root.Read("/sys/class/net/"+name+"/carrier") == "1"})
	}
	return all
}

// network brings all links up and asks for addresses on those with a carrier, until the one that the machine has booted by has one.
func (b *boot) network(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.carrier)
	defer cancel()
	if lo, err := netlink.LinkByName("lo"); err == nil {
		_ = netlink.LinkSetUp(lo) // nothing that matters goes over it
	}
	links := b.links()
	if len(links) == 0 {
		return fail.New(fail.NotReady, "the kernel knows no network card of this machine").Do("tell which one it is: its module may be missing in the discovery image")
	}
	ready := make(chan facts.Interface, len(links))
	for _, l := range links {
		go func() {
			if err := b.configure(ctx, l); err != nil {
				b.say(fmt.Sprintf("interface %s, %s: %v", l.Name, l.MAC, err))
				return
			}
			ready <- l
		}()
	}
	enough := ctx.Done()
	for have := 0; have < len(links); have++ {
		select {
		case l := <-ready:
			if b.bootMAC == "" || l.MAC == b.bootMAC {
				others, cancel := context.WithTimeout(ctx, othersWithin)
				defer cancel()
				enough = others.Done()
				b.bootMAC = l.MAC
			}
		case <-enough:
			if ctx.Err() == nil {
				return nil // the others come later
			}
			if have > 0 {
				return nil // the server may be reached by another one
			}
			return fail.New(fail.NotReady, "no network card got an address within %s (naupegos.carrier)", b.carrier).
				Do("look whether a DHCP server answers on the network of %s", words(links))
		}
	}
	return nil
}

func words(links []facts.Interface) string {
	var all []string
	for _, l := range links {
		all = append(all, l.Name+" ("+l.MAC+")")
	}
	return strings.Join(all, ", ")
}

// configure brings a link up, and gives it the address that a DHCP server has for it, which is renewed from then on.
func (b *boot) configure(ctx context.Context, l facts.Interface) error {
	link, err := netlink.LinkByName(l.Name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for b.root.Read("/sys/class/net/"+l.Name+"/carrier") != "1" {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("no carrier")
		}
	}
	lease, err := request(ctx, l.Name)
	for err != nil && ctx.Err() == nil {
		lease, err = request(ctx, l.Name)
	}
	if err != nil {
		return err
	}
	if err := take(link, lease); err != nil {
		return err
	}
	go b.renew(context.WithoutCancel(ctx), link, lease) // until the machine ends
	return nil
}

// request asks for an address.
func request(ctx context.Context, name string) (*nclient4.Lease, error) {
	c, err := nclient4.New(name, nclient4.WithTimeout(2*time.Second), nclient4.WithRetry(4))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, leaseWithin)
	defer cancel()
	return c.Request(ctx, dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName))
}

// take gives a link the address of a lease, and the machine its route and name servers.
func take(link netlink.Link, lease *nclient4.Lease) error {
	ack := lease.ACK
	mask := ack.SubnetMask()
	if mask == nil {
		mask = ack.YourIPAddr.DefaultMask()
	}
	if err := netlink.AddrReplace(link, &netlink.Addr{IPNet: &net.IPNet{IP: ack.YourIPAddr, Mask: mask}}); err != nil {
		return fmt.Errorf("set the address %s: %w", ack.YourIPAddr, err)
	}
	if routers := ack.Router(); len(routers) > 0 {
		index := link.Attrs().Index
		// Each link has a route of its own: that of the first one goes before the others'.
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: index, Gw: routers[0], Priority: 100 + index}); err != nil {
			return fmt.Errorf("set the route by %s: %w", routers[0], err)
		}
	}
	return resolver(ack)
}

// resolver names the DNS servers of a lease.
func resolver(ack *dhcpv4.DHCPv4) error {
	servers := ack.DNS()
	if len(servers) == 0 {
		return nil
	}
	var text strings.Builder
	if domain := strings.Trim(ack.DomainName(), "\x00 \n"); domain != "" && !strings.ContainsAny(domain, " \n") {
		fmt.Fprintf(&text, "search %s\n", domain)
	}
	for _, s := range servers {
		fmt.Fprintf(&text, "nameserver %s\n", s)
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	return os.WriteFile("/etc/resolv.conf", []byte(text.String()), 0o644)
}

// renew asks for the same address again each time that half of its time is over; another one is taken beside it.
func (b *boot) renew(ctx context.Context, link netlink.Link, lease *nclient4.Lease) {
	for {
		half := max(lease.ACK.IPAddressLeaseTime(time.Hour)/2, 10*time.Second)
		select {
		case <-time.After(half):
		case <-ctx.Done():
			return
		}
		next, err := request(ctx, link.Attrs().Name)
		if err == nil {
			err = take(link, next)
		}
		if err != nil {
			b.say(fmt.Sprintf("interface %s: the address is not renewed: %v", link.Attrs().Name, err))
			continue
		}
		lease = next
	}
}
