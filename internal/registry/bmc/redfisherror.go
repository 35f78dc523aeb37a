package bmc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// refused converts a failure into an error for people.
func (a Access) refused(err error, what string) error {
	var own *fail.Error
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	var said *httpError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &cert) && len(cert.UnverifiedCertificates) > 0:
		return untrusted(a, cert.UnverifiedCertificates[0], cert.Err)
	case errors.As(err, &said):
		switch said.status {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fail.Wrap(fail.Unauthorized, said, "%s: user or password are not accepted, or may not do that", what).At(a.Address).Do("naupegos machine bmc MACHINE sets them")
		case http.StatusServiceUnavailable:
			return fail.Wrap(fail.NotReady, said, "%s: the BMC is busy", what).At(a.Address).Do("try again later")
		}
		return fail.Wrap(fail.Refused, said, "%s", what).At(a.Address)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fail.Wrap(fail.Unreachable, errors.New("no answer in time"), "%s", what).At(a.Address).Do("see that Redfish is on there, and its TCP port open")
	case errors.Is(err, http.ErrSchemeMismatch):
		return fail.Wrap(fail.Unreachable, errors.New("it answers plain HTTP there, not TLS"), "%s", what).At(a.Address).
			Do("the password is sent over TLS alone: name the HTTPS port, or give the service a certificate (sushy-emulator: --ssl-certificate and --ssl-key)")
	case strings.Contains(err.Error(), "failed to parse certificate"):
		return fail.Wrap(fail.Unreachable, err, "%s", what).At(a.Address).Do("the BMC's certificate is malformed: have the BMC's own pages make a new one, or use IPMI (--protocol ipmi)")
	case strings.Contains(err.Error(), "tls: "): // crypto/tls has no type for an alert that a peer sent
		return fail.Wrap(fail.Unreachable, err, "%s", what).At(a.Address).Do("the BMC may know no TLS 1.2, or none of its ciphers that are safe: update its firmware, or use IPMI (--protocol ipmi)")
	}
	return fail.Wrap(fail.Unreachable, err, "%s", what).At(a.Address)
}
