package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// look is the interval of checks whether a serving certificate is due, its files have changed, or this host has other addresses.
const look = 30 * time.Second

// Serving is a server's certificate. It can be exchanged while connections continue.
type Serving struct {
	current atomic.Pointer[tls.Certificate]
	renew   func() (*tls.Certificate, error) // nil: the current one stays
	log     *slog.Logger
}

// Serve returns a certificate of the authority for this host: its name, its addresses, loopback, and further names and addresses. It replaces a certificate
// that was issued while the clock was ahead: clients refuse one that is not yet valid.
func (a *Authority) Serve(names []string, log *slog.Logger) (*Serving, error) {
	s := &Serving{log: log}
	var of []string
	s.renew = func() (*tls.Certificate, error) {
		now, err := HostNames(names)
		if err != nil {
			return nil, err
		}
		if c := s.current.Load(); c != nil && slices.Equal(of, now) && time.Until(c.Leaf.NotAfter) > leafLife/3 && time.Until(c.Leaf.NotBefore) <= 0 {
			return nil, nil
		}
		c, err := a.leaf(now)
		if err == nil {
			of = now
		}
		return c, err
	}
	return s, s.refresh()
}

// Files returns the certificate and key in two files (PEM), which it reads again when they change.
func Files(cert, key string, log *slog.Logger) (*Serving, error) {
	s := &Serving{log: log}
	var read [2]time.Time
	s.renew = func() (*tls.Certificate, error) {
		var now [2]time.Time
		for i, f := range []string{cert, key} {
			info, err := os.Stat(f)
			if err != nil {
				return nil, fail.Wrap(fail.Invalid, err, "read the server's certificate")
			}
			now[i] = info.ModTime()
		}
		if s.current.Load() != nil && now == read {
			return nil, nil
		}
		c, err := tls.LoadX509KeyPair(cert, key) // the error contains no part of the files
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the server's certificate").At(cert)
		}
		read = now
		return &c, nil
	}
	return s, s.refresh()
}

// refresh exchanges the certificate if a new one is available.
func (s *Serving) refresh() error {
	c, err := s.renew()
	if err != nil || c == nil {
		return err
	}
	s.current.Store(c)
	s.log.Info("certificate", "names", c.Leaf.DNSNames, "addresses", c.Leaf.IPAddresses, "until", c.Leaf.NotAfter)
	return nil
}

// Keep exchanges the certificate when needed, until ctx ends. It logs errors, and tries again.
func (s *Serving) Keep(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.refresh(); err != nil {
			s.log.Error("the certificate could not be renewed; the old one stays", "error", err.Error())
		}
	}
}

// Config returns the TLS configuration for the certificate. It requests clients' certificates and accepts those signed by clients (nil: requests
// none).
func (s *Serving) Config(clients *x509.CertPool) *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current.Load(), nil },
	}
	if clients != nil {
		c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, clients
	}
	return c
}

// Root returns "sha256:" and the digest of the authority's certificate, which is the last one of the chain.
func (s *Serving) Root() string {
	chain := s.current.Load().Certificate
	return fmt.Sprintf("sha256:%x", sha256.Sum256(chain[len(chain)-1]))
}

// leaf issues a serving certificate.
func (a *Authority) leaf(names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make the key of the server's certificate")
	}
	c := x509.Certificate{
		Subject: pkix.Name{CommonName: "naupegos-server"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	der, err := a.Sign(c, key.Public(), leafLife)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the server's certificate")
	}
	// The authority is included, because booting machines know only its fingerprint.
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// HostNames lists the names and addresses of this host, sorted.
func HostNames(more []string) ([]string, error) {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, more...)
	if host, err := os.Hostname(); err == nil && host != "" {
		names = append(names, host)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "list this host's addresses")
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			names = append(names, n.IP.String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
