package v1alpha1_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/testkit"
)

// selfSigned returns a self-signed certificate in PEM.
func selfSigned(t *testing.T, c *x509.Certificate) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	c.SerialNumber, c.Subject, c.BasicConstraintsValid = big.NewInt(1), pkix.Name{CommonName: "site"}, true
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	testkit.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// authority returns a CA certificate as a flow scalar of YAML.
func authority(t *testing.T, from, to time.Time) string {
	t.Helper()
	return fmt.Sprintf("%q", selfSigned(t, &x509.Certificate{NotBefore: from, NotAfter: to, IsCA: true}))
}

// TestExpiredAuthorities: a document that is about to be used may not contain an expired CA certificate, but a stored one stays readable.
func TestExpiredAuthorities(t *testing.T) {
	now := time.Now()
	for want, ca := range map[string]string{
		"":                   authority(t, now.Add(-time.Hour), now.Add(time.Hour)),
		"expired at":         authority(t, now.Add(-2*time.Hour), now.Add(-time.Hour)),
		"is valid only from": authority(t, now.Add(time.Hour), now.Add(2*time.Hour)),
	} {
		for _, spec := range []string{
			"machines: {trustedCAs: [" + ca + "]}", "registries: [{host: docker.io, ca: " + ca + "}]",
			"registries: [{host: docker.io, mirrors: [{url: \"https://m\", ca: " + ca + "}]}]", "workers: [{name: a, machines: {trustedCAs: [" + ca + "]}}]",
		} {
			doc := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  " + spec + "\n"
			if !strings.Contains(spec, "workers") {
				doc += "  workers: [{name: general}]\n"
			}
			if _, err := validation.Parse("a.yaml", []byte(doc)); err != nil {
				t.Errorf("stored: %v", err)
			}
			_, err := validation.ParseFilledIn("a.yaml", []byte(doc))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.yaml:6:")) {
				t.Errorf("about to be used: %v, want %q", err, want)
			}
		}
	}
}
