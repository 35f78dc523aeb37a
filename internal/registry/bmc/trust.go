package bmc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	begins = 30 * time.Second // time limit for a controller to begin an answer: they are slow computers
	busy   = 2 * time.Second  // how long to wait for a busy one that does not say until when
)

// origin returns the controller's origin: https://HOST[:PORT].
func (a Access) origin() string {
	if _, _, err := net.SplitHostPort(a.Address); err != nil && strings.Contains(a.Address, ":") {
		return "https://[" + strings.Trim(a.Address, "[]") + "]"
	}
	return "https://" + a.Address
}

// suites are Go's cipher suites and the suites with RSA key exchange, which Go offers only on request: older controllers (iLO 4, iDRAC 8, HDM) have
// no others. Go prefers its own. The controller still proves its identity, but an attacker who records the traffic and later steals its key can
// decrypt it.
func suites() (ids []uint16) {
	for _, s := range tls.CipherSuites() {
		ids = append(ids, s.ID)
	}
	return append(ids, tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_CBC_SHA, tls.TLS_RSA_WITH_AES_128_CBC_SHA)
}

// client returns a client that connects only to this controller, and only if its certificate is trusted.
func (a Access) client() *http.Client {
	c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: suites()}
	switch {
	case a.Fingerprint != "":
		// A controller's own certificate contains no name to verify; verify instead that it is the pinned one.
		c.InsecureSkipVerify = true // VerifyConnection does it
		c.VerifyConnection = func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			if !bytes.Equal(sum[:], fingerprint(a.Fingerprint)) {
				return untrusted(a, s.PeerCertificates[0], nil)
			}
			return nil
		}
	default:
		if a.Authorities != "" {
			c.RootCAs = x509.NewCertPool()
			c.RootCAs.AppendCertsFromPEM([]byte(a.Authorities))
		}
	}
	return &http.Client{
		Transport: &patient{where: strings.TrimPrefix(a.origin(), "https://"), next: &http.Transport{
			DisableCompression: true, // some controllers change the tags of compressed answers
			TLSClientConfig:    c, DialContext: (&net.Dialer{Timeout: answers, Control: a.control}).DialContext, TLSHandshakeTimeout: begins, ResponseHeaderTimeout: begins,
		}},
		Timeout:       settles,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // redfishClient.do follows redirects
	}
}

// control refuses a connection to an address that the policy excludes. It checks the resolved address.
func (a Access) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "read the BMC's address").At(a.Address)
	}
	return a.may(to.Addr())
}

// untrusted describes the certificate that a controller presents.
func untrusted(a Access, cert *x509.Certificate, why error) error {
	sum := sha256.Sum256(cert.Raw)
	shown := "sha256:" + hex.EncodeToString(sum[:])
	return fail.Wrap(fail.Unauthorized, why, "the BMC's certificate is not trusted: it is %s", shown).At(a.Address).
		Do("if the BMC's own pages show the same, give it as --fingerprint; else another machine answers there")
}

// haste marks requests with an alternative.
type haste struct{}

// hasty makes a request fail at once if the controller is too busy for it.
func hasty(ctx context.Context) context.Context { return context.WithValue(ctx, haste{}, true) }

// patient repeats requests while a controller is busy, and sends them to no other host: a controller's answers contain addresses, which must not lead
// elsewhere.
type patient struct {
	where string // HOST[:PORT]
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" || r.URL.Host != p.where || r.URL.User != nil {
		return nil, fail.New(fail.Refused, "the BMC names an address that is not its own: %s", r.URL.Redacted()).At(p.where)
	}
	for {
		resp, err := p.next.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			return resp, err
		}
		if r.Context().Value(haste{}) != nil {
			return resp, nil
		}
		wait, said := retryAfter(resp.Header)
		if !said {
			wait = busy
		}
		if end, bound := r.Context().Deadline(); bound && time.Until(end) < wait {
			return resp, nil // too late: the caller learns that the controller is busy
		}
		_ = resp.Body.Close()
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		if r.Body != nil {
			if r.GetBody == nil {
				return nil, errors.New("the request to a busy BMC can't be repeated")
			}
			r = r.Clone(r.Context())
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}
