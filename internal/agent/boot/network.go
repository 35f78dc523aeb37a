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
	othersWithin = 3 * time.Second // how long to wait for other links once the boot interface has an address
	leaseWithin  = 15 * time.Second
)

// links are the network interfaces on which the agent listens for switches.
func (b *boot) links() (all []facts.Interface) {
	found, _ := filepath.Glob(b.root.Path("/sys/class/net/*/device")) // the pattern is valid
	for _, device := range found {
		name := filepath.Base(filepath.Dir(device))
		all = append(all, facts.Interface{Name: name, MAC: b.root.Read("/sys/class/net/" + name + "/address"), Link: b.root.Read("/sys/class/net/"+name+"/carrier") == "1"})
	}
	return all
}

// network brings up all links and requests addresses for those with a carrier, until the boot interface has one.
func (b *boot) network(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.carrier)
	defer cancel()
	if lo, err := netlink.LinkByName("lo"); err == nil {
		_ = netlink.LinkSetUp(lo) // carries no important traffic
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
				return nil // the others had their time
			}
			if have > 0 {
				return nil // another link may reach the server
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

// configure brings up a link, configures its address from DHCP, and renews the lease from then on.
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
	for err != nil {
		select {
		case <-time.After(time.Second): // some errors come at once
		case <-ctx.Done():
			return err
		}
		lease, err = request(ctx, l.Name)
	}
	if err := take(link, lease); err != nil {
		return err
	}
	go b.renew(context.WithoutCancel(ctx), link, lease) // until the machine ends
	return nil
}

// request requests an address by DHCP.
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

// take configures a link with the address of a lease, and the machine with the lease's route and name servers.
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
		// Each link has its own default route; the first link's has precedence.
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: index, Gw: routers[0], Priority: 100 + index}); err != nil {
			return fmt.Errorf("set the route by %s: %w", routers[0], err)
		}
	}
	return resolver(ack)
}

// resolver writes the DNS servers of a lease.
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

// renew renews the lease whenever half of it has passed, and adds a new address beside the old one.
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
