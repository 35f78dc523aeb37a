package boot

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// within is the time limit of a request.
const within = 30 * time.Second

// identity is the client certificate that identifies the machine.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// client returns the HTTP client for the server. It trusts the authority that the kernel's arguments name. Without timely it ignores their validity
// period, because the clock may not be set yet.
func (b *boot) client(timely bool, own *identity) (*http.Client, error) {
	u, err := url.Parse(b.server)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "the server's URL")
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// VerifyConnection does the verification: crypto/tls can't be given an authority by its fingerprint.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(s tls.ConnectionState) error {
			ca, err := verify(s.PeerCertificates, b.authority, u.Hostname(), timely)
			if err == nil {
				b.mu.Lock()
				b.ca = ca
				b.mu.Unlock()
			}
			return err
		},
	}
	if own != nil {
		c.Certificates = []tls.Certificate{{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key, Leaf: own.cert}}
	}
	return &http.Client{Timeout: within, Transport: &http.Transport{TLSClientConfig: c, TLSHandshakeTimeout: within}}, nil
}

// believed returns the certificate of the server's authority as PEM, or nil before the first request.
func (b *boot) believed() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ca == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.ca.Raw})
}

// verify accepts a chain that contains the authority with the fingerprint, and returns the authority.
func verify(chain []*x509.Certificate, authority []byte, name string, timely bool) (ca *x509.Certificate, err error) {
	o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: name}
	for _, c := range chain {
		if sum := sha256.Sum256(c.Raw); bytes.Equal(sum[:], authority) {
			o.Roots.AddCert(c)
			ca = c
			continue
		}
		o.Intermediates.AddCert(c)
	}
	if ca == nil {
		return nil, fmt.Errorf("the server shows no certificate of the authority %x, which naupegos.authority names", authority)
	}
	if !timely {
		o.CurrentTime = chain[0].NotBefore.Add(time.Second)
	}
	_, err = chain[0].Verify(o)
	return ca, err
}

// clockMayDiffer is the tolerated difference between the machine's clock and the server's.
const clockMayDiffer = 2 * time.Second

// setClock asks the server for the time until it answers: the machine's clock may never have been set, and certificates have validity periods.
func (b *boot) setClock(ctx context.Context) error {
	c, err := b.client(false, nil)
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	said := ""
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, b.pause) {
		at, err := timeOf(ctx, c, b.server)
		if err == nil {
			return b.clock(at)
		}
		if said != err.Error() {
			said = err.Error()
			b.say("the server does not answer yet: " + said)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fail.Wrap(fail.Unreachable, err, "ask the server for the time").At(b.server)
		}
	}
}

// timeOf returns the server's time from the Date header of any answer.
func timeOf(ctx context.Context, c *http.Client, server string) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/healthz", nil)
	if err != nil {
		return time.Time{}, err
	}
	res, err := c.Do(req)
	if err != nil {
		return time.Time{}, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // the status of the server does not matter here
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("the server reports no time: %w", err)
	}
	return at, nil
}

// clock sets the machine's.
func (b *boot) clock(at time.Time) error {
	if diff := time.Since(at); diff.Abs() > clockMayDiffer {
		now := unix.NsecToTimespec(at.UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
			return fail.Wrap(fail.Refused, err, "set the machine's clock")
		}
		b.say(fmt.Sprintf("the clock is set to %s; it was %s off", at.UTC().Format(time.RFC3339), diff.Abs().Round(time.Second)))
	}
	return nil
}
