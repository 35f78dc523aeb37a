package netboot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot/dhcp"
	"github.com/naupegos/naupegos/internal/netboot/programs"
	"github.com/naupegos/naupegos/internal/peer"
)

// The ports of a Service; docs/reference/server.md lists all ports of the server.
const (
	dhcpPort  = 67   // UDP, DHCP: with modes proxy and on
	proxyPort = 4011 // UDP, direct ProxyDHCP requests: with mode proxy
	tftpPort  = 69   // UDP; the data comes from an ephemeral port
)

// programsPath is the path of iPXE's programs for firmware that boots over HTTP.
const programsPath = "/netboot/"

// Service serves an interface. New opens its sockets, so that conflicts show before anything else starts.
type Service struct {
	cfg      Config
	link     link
	programs *programs.Set
	pool     *dhcp.Pool
	dhcp     []*socket
	tftp     *tftpServer
}

// New checks the config, looks for another DHCP server if this one will assign addresses, and opens the sockets.
func New(ctx context.Context, cfg Config) (*Service, error) {
	l, err := cfg.check()
	if err != nil {
		return nil, err
	}
	cfg.Log = peer.Quiet(cfg.Log) // every host on the link can send packets that each cause a log line
	s := &Service{cfg: cfg, link: l}
	if s.programs, err = programs.Find(cfg.Programs...); err != nil {
		return nil, err
	}
	if cfg.DHCP == On {
		if err := s.beAlone(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// beAlone returns an error if the link has a DHCP server already.
func (s *Service) beAlone(ctx context.Context) error {
	other, err := findDHCP(ctx, s.link)
	switch {
	case err != nil:
		return fail.Wrap(fail.Internal, err, "look for a DHCP server").At(s.link.Name)
	case other.IsValid():
		return fail.New(fail.Refused, "a DHCP server answers already, %s", other).At(s.link.Name).Do("say --dhcp proxy to boot machines beside it, or stop it")
	}
	return nil
}

// miss logs a warning if no DHCP server answers to complement the proxy. A server may start later.
func (s *Service) miss(ctx context.Context) {
	other, err := findDHCP(ctx, s.link)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.cfg.Log.Warn("it is not known whether there is a DHCP server", "interface", s.link.Name, "reason", err.Error())
	case other.IsValid():
		s.cfg.Log.Info("addresses come from another DHCP server", "interface", s.link.Name, "server", other)
	default:
		s.cfg.Log.Warn("no DHCP server answers: machines boot only once one gives them addresses", "interface", s.link.Name)
	}
}

func (s *Service) open() error {
	handler, err := s.handler()
	if err != nil {
		return err
	}
	var ports []int
	switch s.cfg.DHCP {
	case Proxy:
		ports = []int{dhcpPort, proxyPort}
	case On:
		ports = []int{dhcpPort}
	}
	for _, port := range ports {
		conn, err := listen(s.link, port)
		if err != nil {
			return err
		}
		s.dhcp = append(s.dhcp, &socket{conn, port, handler, s.cfg.Log})
	}
	conn, err := listen(s.link, tftpPort)
	if err != nil {
		return err
	}
	s.tftp = newTFTP(conn, s.programs, s.script(), s.cfg.Log)
	return nil
}

// script returns the URL of iPXE's first script.
func (s *Service) script() string {
	return fmt.Sprintf("http://%s/boot.ipxe", netip.AddrPortFrom(s.cfg.Address, s.cfg.HTTP))
}

// handler returns the handler of the mode.
func (s *Service) handler() (dhcp.Handler, error) {
	host := netip.AddrPortFrom(s.cfg.Address, s.cfg.HTTP)
	boot := dhcp.Boot{Server: s.cfg.Address, Program: s.programs.For, Script: s.script(), Programs: fmt.Sprintf("http://%s%s", host, programsPath)}
	if s.cfg.DHCP != On {
		return &dhcp.Proxy{Boot: boot}, nil
	}
	net := s.link.prefix
	keep := []netip.Addr{s.cfg.Address, net.Masked().Addr(), lastOf(net)}
	if s.cfg.Router.IsValid() {
		keep = append(keep, s.cfg.Router)
	}
	pool, err := dhcp.NewPool(s.cfg.Range, s.cfg.Lease, s.cfg.Leases, time.Now, keep...)
	if err != nil {
		return nil, err
	}
	s.pool = pool
	return &dhcp.Full{Boot: boot, Link: net, Pool: pool, Router: s.cfg.Router, DNS: s.cfg.DNS, Log: s.cfg.Log}, nil
}

// lastOf returns the broadcast address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range s.dhcp {
		g.Go(c.serve)
	}
	g.Go(s.tftp.serve)
	if s.cfg.DHCP == Proxy {
		g.Go(func() error {
			s.miss(ctx)
			return nil
		})
	}
	g.Go(func() error { return advertise(ctx, s.link, s.cfg.Log) })
	g.Go(func() error {
		<-ctx.Done()
		return s.close()
	})
	s.cfg.Log.Info("machines can boot from the network", "interface", s.link.Name, "address", s.cfg.Address, "dhcp", s.cfg.DHCP, "programs", strings.Join(s.programs.Names(), " "))
	return g.Wait()
}

// close closes the sockets, which ends the serving goroutines.
func (s *Service) close() error {
	var err error
	for _, c := range s.dhcp {
		err = errors.Join(err, c.conn.Close())
	}
	if s.tftp != nil {
		s.tftp.stop()
	}
	if s.pool != nil {
		err = errors.Join(err, s.pool.Close())
	}
	return err
}

// Handler adds iPXE's programs to the boot endpoints, for firmware that boots over HTTP.
func (s *Service) Handler(boot http.Handler) http.Handler { return withPrograms(s.programs, boot) }

func withPrograms(set *programs.Set, boot http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", boot)
	mux.HandleFunc(programsPath+"{name}", func(w http.ResponseWriter, r *http.Request) {
		data := set.Get(r.PathValue("name"))
		if data == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/efi")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
	})
	return mux
}

// closed reports whether err comes from closing a socket on purpose.
func closed(err error) bool { return errors.Is(err, net.ErrClosed) }
