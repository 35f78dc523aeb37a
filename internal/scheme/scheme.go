// Package scheme finds addresses that begin with http:// or https:// where the service speaks the other one: HTTP's own errors for that
// ("connection reset", "first record does not look like a TLS handshake") do not say what to change.
//
// It also bounds what a service answers. It knows HTTP and TLS, and no service.
package scheme

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Watch returns a transport like t whose errors name such an address. The error is fail.Invalid, whatever wraps it, because waiting does not help.
// Requests through a proxy are left alone.
func Watch(t *http.Transport) http.RoundTripper { return &watch{t} }

type watch struct{ next *http.Transport }

// CloseIdleConnections lets http.Client close the connections of the transport.
func (w *watch) CloseIdleConnections() { w.next.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (w *watch) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.next.RoundTrip(r)
	switch {
	case err != nil && (r.Context().Err() != nil || !connected(err)), err == nil && (r.URL.Scheme != "http" || !wantsTLS(res)), w.proxied(r):
		return res, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), asking)
	defer cancel()
	other, speaks := "https", w.speaksTLS
	if r.URL.Scheme == "https" {
		other, speaks = "http", w.speaksHTTP
	}
	if errors.Is(err, http.ErrSchemeMismatch) || speaks(ctx, r.URL) {
		if res != nil {
			res.Body.Close()
		}
		return nil, mixedUp(r.URL, other, err)
	}
	return res, err
}

func mixedUp(u *url.URL, other string, err error) error {
	return fail.Wrap(fail.Invalid, err, "the address begins with %s://, but the service speaks %s", u.Scheme, other).
		Do("write %s://%s, or the port of %s", other, u.Host, u.Scheme).Settle()
}

const (
	asking = 5 * time.Second // for the second look at a service
	begin  = 1 << 10         // bytes of an answer that are looked at
)

// connected reports whether an error came after the connection was made, and says nothing of certificates.
func connected(err error) bool {
	var op *net.OpError
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	return !(errors.As(err, &op) && op.Op == "dial" || errors.As(err, &untrusted) || errors.As(err, &unknown))
}

// aboutTLS matches the texts with which servers answer plain HTTP on a port for TLS.
var aboutTLS = regexp.MustCompile(`(?i)\b(https|ssl|tls)\b`)

// wantsTLS reports whether an answer says that the port is for TLS. It leaves the body as it was.
func wantsTLS(res *http.Response) bool {
	if res.StatusCode != http.StatusBadRequest {
		return false
	}
	head := make([]byte, begin)
	n, _ := io.ReadFull(res.Body, head)
	res.Body = &again{io.MultiReader(bytes.NewReader(head[:n]), res.Body), res.Body}
	return aboutTLS.Match(head[:n])
}

// again is a body whose beginning was read.
type again struct {
	io.Reader
	io.Closer
}

func (w *watch) proxied(r *http.Request) bool {
	if w.next.Proxy == nil {
		return false
	}
	proxy, err := w.next.Proxy(r)
	return err != nil || proxy != nil
}

// dial connects as the transport does.
func (w *watch) dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	dial := w.next.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	c, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(at); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// speaksTLS reports whether a service answers in TLS. It sends nothing of the request.
func (w *watch) speaksTLS(ctx context.Context, u *url.URL) bool {
	c, err := w.dial(ctx, u)
	if err != nil {
		return false
	}
	defer c.Close()
	err = tls.Client(c, &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: true, MinVersion: tls.VersionTLS10}).HandshakeContext(ctx) //nolint:gosec // nothing is sent over it
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert) // an alert is TLS, too: the server may want a certificate
}

// speaksHTTP reports whether a service answers in plain HTTP, and not only that it wants TLS.
func (w *watch) speaksHTTP(ctx context.Context, u *url.URL) bool {
	c, err := w.dial(ctx, u)
	if err != nil {
		return false
	}
	defer c.Close()
	if _, err := io.WriteString(c, "HEAD / HTTP/1.1\r\nHost: "+u.Host+"\r\nConnection: close\r\n\r\n"); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, 64<<10)), nil)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return !wantsTLS(res)
}
