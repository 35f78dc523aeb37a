package netboot

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"

	"github.com/naupegos/naupegos/internal/fail"
)

const linkLocalWithin = 10 * time.Second // after an interface comes up

// advertise tells clients that look for an IPv6 router that there is none: iPXE waits 13 seconds for an answer before it boots. The answer is an
// advertisement with a router lifetime of zero and without a prefix, so it has no other effect. advertise is silent while a real router
// advertises.
func advertise(ctx context.Context, l link, log *slog.Logger) error {
	conn, err := listenNDP(ctx, l)
	if err != nil {
		log.Warn("no router advertisements: iPXE takes longer", "interface", l.Name, "reason", err.Error())
		return nil
	}
	defer conn.Close()                                                      //nolint:errcheck // all messages are sent by then
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) }) //nolint:errcheck // it can't fail on an open socket
	defer stop()
	var silent time.Time // end of the validity of a real router's advertisement
	for {
		m, _, from, err := conn.ReadFrom()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return fail.Wrap(fail.Internal, err, "read router solicitations").At(l.Name)
		}
		switch m := m.(type) {
		case *ndp.RouterAdvertisement:
			if m.RouterLifetime > 0 {
				silent = time.Now().Add(m.RouterLifetime)
			}
		case *ndp.RouterSolicitation:
			if time.Now().Before(silent) {
				continue
			}
			if from.IsUnspecified() {
				from = netip.IPv6LinkLocalAllNodes()
			}
			if err := conn.WriteTo(&ndp.RouterAdvertisement{}, nil, from); err != nil {
				log.Warn("a router solicitation was not answered", "from", from, "reason", err.Error())
			}
		}
	}
}

// listenNDP opens a socket for router solicitations once the link has a link-local address.
func listenNDP(ctx context.Context, l link) (*ndp.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, linkLocalWithin)
	defer stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, _, err := ndp.Listen(l.Interface, ndp.LinkLocal)
		if err == nil {
			return conn, errors.Join(filter(conn), conn.JoinGroup(netip.IPv6LinkLocalAllRouters()))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// filter limits the socket to router solicitations and router advertisements.
func filter(conn *ndp.Conn) error {
	var f ipv6.ICMPFilter
	f.SetAll(true)
	f.Accept(ipv6.ICMPTypeRouterSolicitation)
	f.Accept(ipv6.ICMPTypeRouterAdvertisement)
	return conn.SetICMPFilter(&f)
}
