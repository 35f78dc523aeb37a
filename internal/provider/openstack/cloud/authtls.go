package cloud

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// tlsFromEnv reads OS_CACERT, OS_CERT, OS_KEY and OS_INSECURE; nil where none is set.
func tlsFromEnv() (*tls.Config, error) {
	cfg, set := &tls.Config{MinVersion: tls.VersionTLS12}, false
	if f := os.Getenv("OS_CACERT"); f != "" {
		pem, err := os.ReadFile(f)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the cloud's CA certificate").Do("correct $OS_CACERT")
		}
		cfg.RootCAs, set = x509.NewCertPool(), true
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fail.New(fail.Invalid, "%s holds no certificate", f).Do("correct $OS_CACERT")
		}
	}
	if c, k := os.Getenv("OS_CERT"), os.Getenv("OS_KEY"); c != "" && k != "" {
		pair, err := tls.LoadX509KeyPair(c, k)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the client certificate").Do("correct $OS_CERT and $OS_KEY")
		}
		cfg.Certificates, set = []tls.Certificate{pair}, true
	}
	switch strings.ToLower(os.Getenv("OS_INSECURE")) {
	case "1", "true", "yes":
		cfg.InsecureSkipVerify, set = true, true // the user asks for it, as with every OpenStack tool
	}
	if !set {
		return nil, nil
	}
	return cfg, nil
}

// untrusted tells of a cloud whose certificate was not accepted, which another attempt would not change, and what to do about it.
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
