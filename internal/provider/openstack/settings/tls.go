package settings

import (
	"crypto/tls"
	"crypto/x509"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// yes parses a boolean in its common spellings.
func yes(v value, unset bool) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(v.text)) {
	case "":
		return unset, nil
	case "1", "t", "true", "y", "yes", "on":
		return true, nil
	case "0", "f", "false", "n", "no", "off":
		return false, nil
	}
	return false, bad(v, "%q is not a boolean", v.text).Do("name a file of authorities with cacert")
}

// trust reads the authorities for the cloud's certificates, and the client certificate. As in the openstack command, $OS_CACERT, $OS_CERT and $OS_KEY take
// precedence over the file.
func (c chosen) trust(src Source, s *Settings) error {
	insecure, err := yes(c.get("insecure"), false)
	if err != nil {
		return err
	}
	verify, err := yes(c.get("verify"), true)
	if err != nil {
		return err
	}
	s.Insecure = insecure || !verify
	from := func(key string) value {
		if name := "OS_" + strings.ToUpper(key); src.Getenv(name) != "" {
			return value{src.Getenv(name), "$" + name}
		}
		return c.get(key)
	}
	ca, cert, key := from("cacert"), from("cert"), from("key")
	if s.CACert, err = src.pem(ca, "the CA certificate"); err != nil {
		return err
	}
	if len(s.CACert) > 0 && !x509.NewCertPool().AppendCertsFromPEM(s.CACert) {
		return bad(ca, "the file has no certificate in PEM").Do("name the file of the cloud's authority")
	}
	if cert.text == "" && key.text != "" {
		return bad(key, "a key is set without a certificate").Do("set cert to its certificate, or remove the key")
	}
	if key.text == "" {
		key = cert // one file may contain both
	}
	if s.Cert, err = src.pem(cert, "the client certificate"); err != nil {
		return err
	}
	if s.Key, err = src.pem(key, "the client certificate's key"); err != nil || cert.text == "" {
		return err
	}
	if _, err := tls.X509KeyPair(s.Cert, s.Key); err != nil {
		return fail.Wrap(fail.Invalid, err, "use the client certificate with the key of %s", key.at).At(cert.at).Do("name a certificate and its key, without a passphrase")
	}
	return nil
}

// pem returns the PEM of a setting, which is a file name or the PEM itself.
func (s Source) pem(v value, what string) ([]byte, error) {
	if v.text == "" {
		return nil, nil
	}
	if strings.Contains(v.text, "-----BEGIN") {
		return []byte(v.text), nil
	}
	path, err := s.expand(strings.TrimSpace(v.text))
	if err == nil {
		var data []byte
		if data, err = s.ReadFile(path); err == nil {
			return data, nil
		}
	}
	return nil, fail.Wrap(fail.Invalid, err, "read %s", what).At(v.at).Do("correct the path; ~ is the home directory")
}

// TLS returns the TLS configuration, or nil for the system's defaults.
func (s Settings) TLS() (*tls.Config, error) {
	if len(s.CACert) == 0 && len(s.Cert) == 0 && !s.Insecure {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.Insecure} //nolint:gosec // the user asks for it, as with every OpenStack tool
	if len(s.CACert) > 0 {
		cfg.RootCAs = x509.NewCertPool()
		cfg.RootCAs.AppendCertsFromPEM(s.CACert)
	}
	if len(s.Cert) > 0 {
		pair, err := tls.X509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "use the client certificate of %s", s.Source)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
