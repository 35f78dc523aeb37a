package cloud

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// untrusted reports whether err is a rejected certificate of the cloud, which no retry can fix, and returns the remedy.
func untrusted(err error) (hint string, yes bool) {
	var refused *tls.CertificateVerificationError
	if !errors.As(err, &refused) {
		return "", false
	}
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		hint = "where the cloud has an authority of its own, name its certificate as cacert in clouds.yaml or as $OS_CACERT"
	}
	return hint, true
}
