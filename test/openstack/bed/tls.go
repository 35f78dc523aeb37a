package bed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// haproxy terminates TLS for the services of tlsRegion and forwards requests to the services of the other region. Its log lists the requests with
// their clients.
func haproxy(b *Bed) *Service {
	s := &Service{
		Name: "haproxy", args: []string{"haproxy", "-db", "-f", filepath.Join(b.etc(), "haproxy", "haproxy.cfg")}, ready: b.answersTLS,
		needs: []string{"keystone", "placement", "neutron-server", "nova-api", "cinder-api", "glance-api"},
		fresh: true, // HAProxy removes O_APPEND from its output and would overwrite earlier lines
	}
	for _, e := range catalog {
		if e.TLS != 0 {
			s.ports = append(s.ports, b.api(e.TLS))
		}
	}
	return s
}

// answersTLS reports whether the services of tlsRegion answer a client that trusts only the bed's authority.
func (b *Bed) answersTLS(ctx context.Context) (bool, error) {
	pem, err := os.ReadFile(b.CACertFile())
	if err != nil {
		return false, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return false, fail.New(fail.Internal, "%s holds no certificate", b.CACertFile())
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	for _, e := range catalog {
		if e.TLS == 0 {
			continue
		}
		if err := answers(ctx, client, "https://"+b.api(e.TLS)+"/"); err != nil {
			return false, err
		}
	}
	return true, nil
}

// tlsCertificate creates the authority that clients of tlsRegion trust, and the certificate of its services, if they do not exist.
func tlsCertificate(ctx context.Context, b *Bed) error {
	cert := filepath.Join(b.tlsDir(), "server.pem")
	if _, err := os.Stat(cert); err == nil {
		return nil
	}
	if err := authority(ctx, b, b.tlsDir(), "The OpenStack test bed's own authority"); err != nil {
		return err
	}
	tmp := cert + ".new" // rename it when complete
	if err := newCertificate(ctx, b, b.o.Address, cert+".key", tmp, "-CA", b.CACertFile(), "-CAkey", filepath.Join(b.tlsDir(), "ca.key"),
		"-addext", "subjectAltName=IP:"+b.o.Address, "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth"); err != nil {
		return err
	}
	return os.Rename(tmp, cert)
}

// authority creates a certificate authority in a directory: ca.pem and ca.key.
func authority(ctx context.Context, b *Bed, dir, name string) error {
	return newCertificate(ctx, b, name, filepath.Join(dir, "ca.key"), filepath.Join(dir, "ca.pem"))
}

// newCertificate creates a key and its certificate. The certificate is self-signed unless more names an authority.
func newCertificate(ctx context.Context, b *Bed, name, key, cert string, more ...string) error {
	return runTool(ctx, b, "openssl", nil, append([]string{"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
		"-subj", "/CN=" + name, "-days", "3650", "-keyout", key, "-out", cert}, more...)...)
}
