// Package server runs the process that serves operators and machines over the network: its listeners, mounts, start and stop.
//
// Handlers only translate: they call internal/operate, internal/netboot and internal/machines. The package itself knows nothing about the
// mounted handlers.
package server

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/authority"
)

// Config configures a server.
type Config struct {
	ListenHTTP  string             // for machines that boot: plain HTTP
	ListenHTTPS string             // for everything else
	Serving     *authority.Serving // the certificate of ListenHTTPS
	Clients     *x509.CertPool     // authorities of client certificates (machines); nil: no client is asked for one
	Parts       []Part
	// HTTP replaces ListenHTTP if it is bound already. With OfFront, the front process requests the routes of Boot and Front there, on behalf of clients
	// that its own listener counts.
	HTTP    net.Listener
	OfFront bool
	// Around wraps every handler of the listener HTTP; nil wraps nothing.
	Around func(http.Handler) http.Handler
	// Healthz answers GET /healthz; nil reports the parts' health.
	Healthz http.Handler
	Guard   Guard
	Ping    func(context.Context) error                         // checks that the store answers
	Observe func(r *http.Request, code int, took time.Duration) // receives each answered request; may be nil
	Log     *slog.Logger
	Limits  Limits         // for clients without credentials
	Proxies []netip.Prefix // trusted to set X-Forwarded-For; see ParseProxies
	Drain   time.Duration  // grace period of requests after a stop; 0: 30 s
}

// Part is the contribution of one package to the server. Only the name is required.
type Part struct {
	Name   string // in /healthz and the log
	Mounts []Mount
	// Run works in the background until ctx ends; an error ends the server.
	Run func(ctx context.Context) error
	// Health reports the health of the part's components by name. The part is healthy if all are.
	Health func(ctx context.Context) map[string]bool
}

// Server holds the bound listeners; Serve runs them.
type Server struct {
	c       Config
	servers []*http.Server
	listens []net.Listener
	pinger  pinger
}

// Addresses are the listening addresses of a server.
type Addresses struct{ HTTP, HTTPS string }

// Listen binds the addresses, so that an occupied port is an error before anything else begins.
func Listen(ctx context.Context, c Config) (*Server, error) {
	if c.Drain <= 0 {
		c.Drain = 30 * time.Second
	}
	s := &Server{c: c}
	for _, l := range []struct {
		on      Listener
		address string
		flag    string
	}{{Boot, c.ListenHTTP, "--listen-http"}, {API, c.ListenHTTPS, "--listen-https"}} {
		on, bound, limits := l.on, c.HTTP, c.Limits
		switch {
		case on == API && l.address == "" && c.HTTP != nil:
			continue // the front process has no certificate
		case on == API || bound == nil:
			var err error
			if bound, err = Bind(ctx, l.address, l.flag); err != nil {
				return nil, errors.Join(err, s.close())
			}
		case c.OfFront:
			on, limits = Front, c.Limits.behind()
		}
		h, err := s.handler(on)
		if err != nil {
			return nil, errors.Join(err, bound.Close(), s.close())
		}
		if on != API && c.Around != nil {
			h = c.Around(h)
		}
		srv := newHTTPServer(h, c.Log)
		watch(srv)
		if l.on == API {
			srv.TLSConfig = c.Serving.Config(c.Clients)
		}
		s.servers, s.listens = append(s.servers, srv), append(s.listens, newDoors(bound, limits, s.trusted))
	}
	return s, nil
}

// Bind listens at the address from the named flag.
func Bind(ctx context.Context, address, flag string) (*net.TCPListener, error) {
	var lc net.ListenConfig
	bound, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "listen at %s", address).Do("find the listener with ss -ltnp, or give another address by %s", flag)
	}
	return bound.(*net.TCPListener), nil
}

// Addresses returns the listening addresses with the actual ports.
func (s *Server) Addresses() Addresses {
	a := Addresses{HTTP: s.listens[0].Addr().String()}
	if len(s.listens) > 1 {
		a.HTTPS = s.listens[1].Addr().String()
	}
	return a
}

// Serve serves until ctx ends, or a listener or part fails. Then it accepts no new connection, cuts requests off after Config.Drain, and waits for the parts.
func (s *Server) Serve(ctx context.Context) error {
	group, work := errgroup.WithContext(ctx)
	for i, srv := range s.servers {
		group.Go(func() error {
			var err error
			if srv.TLSConfig != nil {
				err = srv.ServeTLS(s.listens[i], "", "")
			} else {
				err = srv.Serve(s.listens[i])
			}
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fail.Wrap(fail.Internal, err, "serve at %s", s.listens[i].Addr())
		})
		group.Go(func() error {
			<-work.Done()
			return s.drain(srv)
		})
	}
	if s.c.Serving != nil {
		group.Go(func() error { return s.c.Serving.Keep(work) })
	}
	for _, p := range s.c.Parts {
		if p.Run != nil {
			group.Go(func() error {
				if err := p.Run(work); err != nil {
					return fail.Wrap(fail.KindOf(err), err, "%s", p.Name)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// drain stops one listener, and closes connections whose requests have not ended in time.
func (s *Server) drain(srv *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.Drain)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		s.c.Log.Warn("requests were cut off", "after", s.c.Drain.String())
		return srv.Close()
	}
	return nil
}

// close closes the listeners that Listen bound.
func (s *Server) close() error {
	var errs []error
	for _, l := range s.listens {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// newHTTPServer returns an http.Server with limits on time and header size. For streamed answers the limit is per write; see patient.
func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 100},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// BesideHTTP returns the usual HTTPS address beside an HTTP one: the same host, port 8443.
func BesideHTTP(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "--listen-http %s", address).Do("give HOST:PORT, or :PORT for all addresses")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", fail.New(fail.Invalid, "--listen-http %s: %q is not a port", address, port)
	}
	if port == "0" {
		return net.JoinHostPort(host, "0"), nil
	}
	return net.JoinHostPort(host, "8443"), nil
}
