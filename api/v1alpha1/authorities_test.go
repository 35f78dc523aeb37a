package v1alpha1_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
)

// TestAuthorities gives a registry the authorities that sites have: the former and the next root while it is replaced, with remarks between them, and the
// registry's own self-signed certificate.
func TestAuthorities(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	one, two, own := selfSigned(t, &x509.Certificate{NotAfter: soon, IsCA: true}), selfSigned(t, &x509.Certificate{NotAfter: soon, IsCA: true}), selfSigned(t, &x509.Certificate{NotAfter: soon})
	key := "-----BEGIN " + "PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END " + "PRIVATE KEY-----\n"
	for name, c := range map[string]struct{ text, problem string }{
		"one":             {one, ""},
		"two":             {one + two, ""},
		"two, remarks":    {"# since 2024\n" + one + "\n# since 2026\n" + two, ""},
		"own certificate": {own, ""},
		"key":             {one + key, "holds a private key"},
		"cut off":         {one + two[:len(two)/2], "is not a certificate in PEM"},
		"remark at end":   {one + "bye", "is not a certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			doc := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: general}]\n  registries:\n    - host: registry.example.org\n      ca: |\n        " +
				strings.ReplaceAll(c.text, "\n", "\n        ") + "\n"
			_, err := validation.Parse("cluster.yaml", []byte(doc))
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("%v, want %q", err, c.problem)
			}
		})
	}
}

// TestAuthoritiesInSuccession: of several certificates one that is valid now suffices.
func TestAuthoritiesInSuccession(t *testing.T) {
	now := time.Now()
	former := selfSigned(t, &x509.Certificate{NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour), IsCA: true})
	next := selfSigned(t, &x509.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true})
	for want, text := range map[string]string{"": former + next, "expired at": former + former} {
		doc := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: general}]\n  registries:\n    - host: registry.example.org\n      ca: |\n        " +
			strings.ReplaceAll(text, "\n", "\n        ") + "\n"
		_, err := validation.ParseFilledIn("cluster.yaml", []byte(doc))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
