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

const linkLocalWithin = 10 * time.Second // from when an interface comes up

// advertise answers who looks for an IPv6 router that there is none: iPXE waits for an answer for 13 seconds before it boots. It is an
// advertisement of a router that is nobody's default, without a prefix, so that nothing follows from it. Where a real router advertises
// itself, this is silent.
func advertise(ctx context.Context, l link, log *slog.Logger) error {
	conn, err := listenNDP(ctx, l)
	if err != nil {
		log.Warn("no router advertisements: iPXE takes longer", "interface", l.Name, "reason", err.Error())
		return nil
	}
	defer conn.Close()                                                      //nolint:errcheck // what was sent was sent
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) }) //nolint:errcheck // it can't fail on an open socket
	defer stop()
	var silent time.Time // until when a real router's advertisement holds
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

// listenNDP opens a socket for router solicitations as soon as the link has an address of its own.
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

// filter has the kernel pass on what a router is asked, and what routers say.
func filter(conn *ndp.Conn) error {
	var f ipv6.ICMPFilter
	f.SetAll(true)
	f.Accept(ipv6.ICMPTypeRouterSolicitation)
	f.Accept(ipv6.ICMPTypeRouterAdvertisement)
	return conn.SetICMPFilter(&f)
}
